"""topperk: how many items should this user be shown?

The way of the data, a module for each step::

    Interactions -> Split -> Scores -> Calibration -> Utility -> Choice -> Evaluation

    data   = tp.read_interactions("ratings.parquet")
    split  = tp.split_random(data, validation=0.2, test=0.2, seed=0)
    scores = tp.Factors(user_vectors, item_vectors, data.ids)
    model  = tp.PersonalizedK(tp.F1(), max_k=50).fit(scores, split)
    lists  = model.recommend(scores)
    sizes  = model.sizes(scores)
"""

from __future__ import annotations

from topperk.calibration import (
    Calibration,
    Calibrator,
    GlobalPlatt,
    PlattCalibration,
    Uncalibrated,
    UserPlatt,
)
from topperk.choice import ChoiceOfK, FixedK, OracleK, PersonalizedK, RandomK, ValidationK
from topperk.counts import count_distribution
from topperk.custom import Custom
from topperk.errors import TopperkError
from topperk.evaluation import Evaluation, MethodOutcome, evaluate, usual_methods
from topperk.fitted import FittedK, ListSizes
from topperk.ids import IdIndex, Ids
from topperk.interactions import Interactions, read_interactions
from topperk.reasons import Reason
from topperk.reliability import Reliability, reliability, reliability_of
from topperk.saved import load
from topperk.scores import (
    Callable,
    Candidates,
    Dense,
    Factors,
    ScoreBlock,
    ScoreSource,
    load_scores,
)
from topperk.split import Split, split_given, split_last, split_random, split_time
from topperk.threads import resources
from topperk.utility import (
    DCG,
    F1,
    NDCG,
    PDCG,
    TP,
    FBeta,
    NetGain,
    Precision,
    Recall,
    Utility,
    utility_named,
)

__version__ = "0.1.0"

__all__ = [
    "DCG",
    "F1",
    "NDCG",
    "PDCG",
    "TP",
    "Calibration",
    "Calibrator",
    "Callable",
    "Candidates",
    "ChoiceOfK",
    "Custom",
    "Dense",
    "Evaluation",
    "FBeta",
    "Factors",
    "FittedK",
    "FixedK",
    "GlobalPlatt",
    "IdIndex",
    "Ids",
    "Interactions",
    "ListSizes",
    "MethodOutcome",
    "NetGain",
    "OracleK",
    "PersonalizedK",
    "PlattCalibration",
    "Precision",
    "RandomK",
    "Reason",
    "Recall",
    "Reliability",
    "ScoreBlock",
    "ScoreSource",
    "Split",
    "TopperkError",
    "Uncalibrated",
    "UserPlatt",
    "Utility",
    "ValidationK",
    "__version__",
    "count_distribution",
    "evaluate",
    "load",
    "load_scores",
    "read_interactions",
    "reliability",
    "reliability_of",
    "resources",
    "split_given",
    "split_last",
    "split_random",
    "split_time",
    "usual_methods",
    "utility_named",
]

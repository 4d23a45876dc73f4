"""The outer shell: command line, report, adapters. Nothing else in topperk imports from here."""

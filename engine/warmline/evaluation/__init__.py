"""What a variant is worth: suites of tasks, answers scored against its base, each figure with an interval."""

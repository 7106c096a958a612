"""The study: exact online learning next to retrained gradient boosting and other learners."""

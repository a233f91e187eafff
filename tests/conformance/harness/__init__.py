"""Random programs against the warm pool on real backends, and the oracle that holds every answer to a replay."""

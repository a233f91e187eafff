"""Makes an OpenVINO model of a GGUF base: read by OpenVINO GenAI, named, repaired and proven against the GGUF."""

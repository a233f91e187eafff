"""What a model may see: the ring of texts from other documents, and the files from which nothing is ever sent."""

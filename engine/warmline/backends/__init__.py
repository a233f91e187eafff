"""The inference libraries, behind one Protocol."""

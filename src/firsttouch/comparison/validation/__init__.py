"""How right the model is: its predictions beside published values, and its estimates beside measured applications."""

"""What methods of one kind share: how they are fitted, saved and loaded."""

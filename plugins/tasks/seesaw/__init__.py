"""Seesaw-CF: what the edit of a fact on one person does to others, and to the person's other facts."""

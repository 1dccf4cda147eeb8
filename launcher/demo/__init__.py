"""`make demo`: one job from its price to its receipt, on everything real."""

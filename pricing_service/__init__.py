"""What models cost: a versioned catalog, looked up and multiplied. No state, no database."""

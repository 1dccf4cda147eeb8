"""AdminService, by subject: what operators may ask, and what they are answered."""

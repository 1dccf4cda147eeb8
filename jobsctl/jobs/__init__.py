"""What is done with jobs: made, read, watched, decided about; and how they are shown."""

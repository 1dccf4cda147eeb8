"""The command line as click sees it: names, options, help. What a command does is imported when it runs."""

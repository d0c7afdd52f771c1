"""What ROOT files hold, read without the machinery that makes it slow: baskets decoded in place, headers kept beside the file (level 2)."""

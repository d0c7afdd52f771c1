"""`consistency`: check by scenarios of writes and reads whether the answers of a store are correct."""

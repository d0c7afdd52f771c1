"""Figures of jobs that read ROOT files: events processed, gaps merged. May import: what `figures` may."""

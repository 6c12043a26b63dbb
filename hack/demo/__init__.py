"""`make demo`: the main job on a real API server, in a form people like to look at."""

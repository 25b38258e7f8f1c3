"""The programs, one file a topic; see conformance.program for their form."""

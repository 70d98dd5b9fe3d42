"""Tests of the phone line."""

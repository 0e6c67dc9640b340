"""The rule file: its shape, how it is loaded and checked, what it says in plain words."""

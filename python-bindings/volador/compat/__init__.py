"""Other systems' names on Volador, for scripts that were written for them. Opt-in: nothing here shadows a real package."""

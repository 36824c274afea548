"""Command-line options of compose/bench and compose/journey."""

import argparse


def number(default, text, least=1, most=999_999, **others):
    """Returns an option that takes a number between two bounds, with a fraction if the default is a float."""
    kind = float if isinstance(default, float) else int

    def read(word):
        value = kind(word)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{word} is not between {least:g} and {most:,}")
        return value

    read.__name__ = "number"
    return {"type": read, "default": default, "metavar": "N", "help": text} | others


def flag(text):
    return {"action": "store_true", "help": text}


def word(text, **others):
    return {"help": text} | others


def parser_of(program, text, options):
    parser = argparse.ArgumentParser(prog=program, description=text, allow_abbrev=False)
    for name, settings in options.items():
        parser.add_argument(f"--{name}", **settings)
    return parser


def list_programs(parsers):
    for parser in parsers:
        print(f"{parser.format_usage()}\n    {parser.description}\n")

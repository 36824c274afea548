#!/usr/bin/env python3
"""Derives an order's token, or a link to its package, with nothing but Python 3.9.

  derived.py token ORDER            the authenticationToken that checkout hands to Wallet
  derived.py link ORDER EXPIRES     a "Track with Apple Wallet" link; EXPIRES in UNIX seconds, at most a day ahead

ORDER   <order type>/<order>

TOKEN_SECRETS, in the environment, is the file of secrets, whose first one derives; WEB_SERVICE_URL the gateway's
address, as it is in orders.
"""
import hashlib
import hmac
import os
import sys


def secret(content):
    """Returns the first secret in the bytes of a file: one a line, and empty lines are skipped."""
    lines = (line.removesuffix(b"\r") for line in content.split(b"\n"))
    return next(line for line in lines if line)


def authenticate(key, message):
    return hmac.new(key, message.encode(), hashlib.sha256).hexdigest()


def token(key, order):
    return authenticate(key, order)[:32]


def link(key, order, expires, service):
    signature = authenticate(key, f"link:{order}:{expires}")
    return f"{service}/v1/orders/{order}/package?expires={expires}&signature={signature}"


def main(words):
    if (words[:1], len(words)) not in ((["token"], 2), (["link"], 3)):
        sys.exit(__doc__)
    try:
        with open(os.environ["TOKEN_SECRETS"], "rb") as file:
            key = secret(file.read())
        if words[0] == "token":
            print(token(key, words[1]))
        else:
            print(link(key, words[1], int(words[2]), os.environ["WEB_SERVICE_URL"]))
    except KeyError as missing:
        sys.exit(f"derived: {missing} is not set")
    except (OSError, ValueError) as error:
        sys.exit(f"derived: {error}")
    except StopIteration:
        sys.exit("derived: there is no secret in the file")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Prints what the programs are made of, as SPDX 2.3 in JSON: the packages that SwiftPM has resolved.

Usage: sbom.py COMMIT

What an image adds, Debian's packages, is in the SBOM that BuildKit attaches to it.
"""
import datetime
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def dependency(pin):
    """Returns the package of a pin.

    >>> made = dependency({"location": "https://github.com/apple/swift-log.git", "state": {"version": "1.2.3"}})
    >>> made["name"], made["externalRefs"][0]["referenceLocator"]
    ('swift-log', 'pkg:swift/github.com/apple/swift-log@1.2.3')
    """
    path = pin["location"].removeprefix("https://").removesuffix(".git")
    version = pin["state"]["version"]
    return package(path.split("/")[-1], version, f"git+https://{path}@{version}", f"pkg:swift/{path}@{version}")


def package(name, version, location, link):
    return {"SPDXID": f"SPDXRef-{name}", "name": name, "versionInfo": version, "downloadLocation": location,
            "filesAnalyzed": False, "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
            "copyrightText": "NOASSERTION",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": link}]}


def document(pins, version, commit, moment):
    packages = [package("waybill", version, "NOASSERTION", f"pkg:generic/waybill@{version}"), *map(dependency, pins)]
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"waybill-{version}",
        "documentNamespace": f"https://spdx.example.invalid/waybill-{version}-{commit}",
        "creationInfo": {"created": moment, "creators": ["Tool: waybill-sbom"]},
        "packages": packages,
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
             "relatedSpdxElement": "SPDXRef-waybill"},
            *({"spdxElementId": "SPDXRef-waybill", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": one["SPDXID"]}
              for one in packages[1:])]}


def main(commit):
    version = re.search(r'let number = "(.*)"', (ROOT / "Shared/Model/ProgramVersion.swift").read_text())[1]
    moment = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    try:
        pins = json.loads((ROOT / "Package.resolved").read_text())["pins"]
    except FileNotFoundError:
        sys.exit("sbom: there is no Package.resolved: run `swift package resolve`")
    print(json.dumps(document(pins, version, commit, moment), indent=2))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: sbom.py COMMIT")
    main(sys.argv[1])

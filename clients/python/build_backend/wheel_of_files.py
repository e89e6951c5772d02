"""Builds the wheel of this package with the standard library alone (PEP 517, PEP 427): a zip of its files and their list."""
import base64
import hashlib
import pathlib
import zipfile

NAME, VERSION = "muster_client", "0.1.0"
ROOT = pathlib.Path(__file__).resolve().parent.parent
# Zip knows no earlier moment; a fixed one makes the same files the same wheel.
MOMENT = (1980, 1, 1, 0, 0, 0)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel into a folder and answers with its name."""
    info = f"{NAME}-{VERSION}.dist-info"
    files = {f"muster/{path.name}": path.read_bytes() for path in sorted((ROOT / "muster").iterdir()) if path.is_file()}
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: muster-client\nVersion: {VERSION}\nRequires-Python: >=3.9\n"
        "License: Apache-2.0 OR MIT\nSummary: Client of a Muster coordinator\n"
    ).encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: muster\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}")
    files[f"{info}/RECORD"] = ("\n".join([*lines, f"{info}/RECORD,,"]) + "\n").encode()
    wheel = f"{NAME}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, MOMENT)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return wheel

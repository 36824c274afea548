"""
compose/deploy/production.md, followed word for word: from a request for a certificate to an update that a device has.

Stand-ins: an authority of ours issues Apple's certificate, the stack has Kafka, Redis and APNs, and its services are
started with the files that the document makes.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import document
from processes import free_ports
from stack import ROOT, SERVICES, Failure, eventually, program, say
from world import Findings

# What the portal writes into an Order Type ID Certificate, and takes from no request.
EXTENSIONS = """
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth, 1.2.840.113635.100.4.19
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
1.2.840.113635.100.14.2 = ASN1:UTF8String:{type}
"""
# The document's own values; a reader has others, and so have we.
NAMES = ("ORDER_TYPE", "WALLET", "WAYBILL_CONFIG")


class Production:
    WORKERS = 1

    @classmethod
    def environment(cls):
        return {}

    def __init__(self, arguments, stack):
        self.stack, self.findings = stack, Findings()
        self.folder = Path(f"{arguments.dir}/waybill").resolve()
        self.authority = Path(stack.env["ROOT_CA"]).parent

    def run(self):
        path = f"{ROOT}/compose/deploy/production.md"
        text = Path(path).read_text()
        if names := [name for name in NAMES if f" {name}=" not in text]:
            raise Failure(f"production.md sets no {names}: its commands need them")
        self.folder.mkdir(mode=0o700)
        port = free_ports(1)[0]
        reader = document.Reader(self.folder, {
            "ORDER_TYPE": self.stack.type, "WALLET": f"https://localhost:{port}",
            "WAYBILL_CONFIG": f"{self.folder}/waybill.json", "CURL_CA_BUNDLE": self.stack.env["ROOT_CA"],
            "PATH": f"{os.path.dirname(program('waybill-packager'))}:{os.environ['PATH']}"})
        wallet = None
        try:
            for _, commands in document.blocks(path):
                if "order.cer" in commands:
                    self.issue()
                elif "openssl rand" in commands:
                    reader.run(commands)
                    self.configure(reader, text)
                    continue
                elif "curl -sS" in commands:
                    self.deploy(port)
                elif "order show" in commands:
                    # The document says "a moment later".
                    publish, show = commands.rstrip().rsplit("\n", 1)
                    reader.run(publish)
                    eventually("the first order", lambda: not reader.run(show, check=False))
                    wallet = self.open_wallet()
                    continue
                say(commands.strip().splitlines()[-1][:110])
                reader.run(commands)
                self.findings.saw("blocks of commands")
            self.judge(wallet)
        finally:
            if wallet and wallet.poll() is None:
                wallet.kill()
        return self.findings.close()

    def issue(self):
        """What the portal does with `order.csr`."""
        (self.folder / "extensions").write_text(EXTENSIONS.format(type=self.stack.type))
        subprocess.run(
            ["openssl", "x509", "-req", "-in", "order.csr", "-outform", "DER", "-out", "order.cer", "-days", "365",
             "-CA", self.authority / "intermediate.pem", "-CAkey", self.authority / "intermediate-key.pem",
             "-set_serial", "7", "-subj", f"/UID={self.stack.type}/CN=Order Type ID/OU=TEAM123456/C=US",
             "-extfile", "extensions"], cwd=self.folder, check=True, capture_output=True)
        subprocess.run(
            ["openssl", "x509", "-in", self.authority / "intermediate.pem", "-outform", "DER", "-out",
             "intermediate.cer"], cwd=self.folder, check=True)
        shutil.copy(f"{self.stack.brand}/assets/logo.png", self.folder / "brands/shop/assets")

    def configure(self, reader, text):
        """Runs the document's block of addresses with those of the stack, which wants no passwords."""
        block = next(one for one in re.findall(r"```bash\n(.*?)```", text, re.S) if "cat >waybill.json" in one)
        values = {"WAYBILL_KAFKA_BOOTSTRAP": self.stack.env["KAFKA_BOOTSTRAP"],
                  "WAYBILL_REDIS_URL": self.stack.env["REDIS_URL"]}
        for key, value in values.items():
            block, count = re.subn(f'"{key}": "[^"]*"', f'"{key}": "{value}"', block)
            if count != 1:
                raise Failure(f"production.md sets {key} {count} times")
        block = re.sub(r'  "WAYBILL_REDIS_PASSWORD_FILE": .*\n', "", block)
        block = re.sub(r"(<<'PROPERTIES'\n).*(PROPERTIES\n)", r"\1\2", block, flags=re.S)
        # Of this machine alone: its APNs, and no certificate of Apple.
        block = block.replace('"WAYBILL_BRANDS"', f'"WAYBILL_APNS_URL": "{self.stack.env["APNS_URL"]}",\n'
                              f'  "WAYBILL_APNS_ROOTS": "{self.stack.env["ROOT_CA"]}",\n  "WAYBILL_BRANDS"')
        reader.run(block)

    def deploy(self, port):
        """Starts the stack's services with the document's files. A second gateway has TLS."""
        for service in SERVICES:
            self.stack.stop(service)
            place = re.findall(r"WAYBILL_(?:OPERATIONS_LISTEN|LISTEN|DRAIN_SECONDS)=\S+", self.stack.command(service))
            self.write(service, place)
            self.stack.start(service)
        server, operations = self.authority / "server", free_ports(1)[0]
        self.write("gateway-tls", [
            f"WAYBILL_LISTEN=127.0.0.1:{port}", f"WAYBILL_OPERATIONS_LISTEN=127.0.0.1:{operations}",
            f"WAYBILL_TLS_CERTIFICATE={server}-certificate.pem", f"WAYBILL_TLS_KEY={server}-key.pem",
            "WAYBILL_DRAIN_SECONDS=0"])
        for file, line in (("services", "gateway-tls"), ("ports", f"gateway-tls={operations}")):
            with open(f"{self.stack.folder}/run/{file}", "a") as opened:
                opened.write(f"{line}\n")
        self.stack.start("gateway-tls")

    def write(self, name, settings):
        self.stack.write_command(
            name, f"cd {self.folder} && exec env WAYBILL_CONFIG={self.folder}/waybill.json {' '.join(settings)} "
            f"{program('waybill-' + name.split('-')[0])}")

    def open_wallet(self):
        """A device that follows the first order until it is completed."""
        return subprocess.Popen(
            [program("waybill-dev"), "wallet", "--gateway", self.stack.env["GATEWAY_URL"], "--order-type",
             self.stack.type, "--order", "first-1", "--secrets", f"{self.folder}/token-secrets", "--apns-admin",
             self.stack.env["APNS_ADMIN_URL"], "--roots", self.stack.env["ROOT_CA"], "--until-status", "completed",
             "--seconds", "60"])

    def judge(self, wallet):
        if wallet is None or wallet.wait(90):
            self.findings.add("the device does not have the update")
        package = subprocess.run(
            [program("waybill-dev"), "verify", "first.order", "--root", self.stack.env["ROOT_CA"]], cwd=self.folder,
            capture_output=True, text=True)
        if package.returncode:
            self.findings.add(f"first.order: {package.stdout}{package.stderr}")

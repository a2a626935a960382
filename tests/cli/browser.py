"""A real Chromium without a window, driven over the WebDriver protocol by chromedriver. Nothing but Python is needed."""
import base64
import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"right": "\ue014", "left": "\ue012", "down": "\ue015", "space": " ", "tab": "\ue004"}


def missing():
    """What is not here to run a browser; None when all is."""
    names = [n for n in ("chromium", "chromedriver") if not shutil.which(n)]
    return f"{' and '.join(names)} not there (tools/setup.sh browser installs them)" if names else None


class Browser:
    """`with Browser() as b:`; closes everything at the end."""

    def __init__(self, width=1440, height=900, dark=False):
        self.size = (width, height)
        self.dark = dark

    def __enter__(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.folder = tempfile.mkdtemp(prefix="shoal-browser-")
        self.driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, cwd=self.folder)
        self.base = f"http://127.0.0.1:{port}"
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def _start(self):
        end = time.monotonic() + 20
        while True:
            try:
                self._call("GET", "/status")
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                 f"--window-size={self.size[0]},{self.size[1]}", f"--user-data-dir={self.folder}/profile",
                 "--disable-background-networking", "--no-first-run", "--force-color-profile=srgb"]
        if self.dark:
            flags.append("--blink-settings=preferredColorScheme=0")
        want = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"},
                                                 "goog:chromeOptions": {"binary": shutil.which("chromium"), "args": flags}}}}
        self.session = "/session/" + self._call("POST", "/session", want)["sessionId"]
        self._call("POST", self.session + "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": self.size[0], "height": self.size[1], "deviceScaleFactor": 1, "mobile": False}})

    def __exit__(self, *_):
        try:
            self._call("DELETE", self.session)
        except OSError:
            pass
        self._end()

    def _end(self):
        self.driver.terminate()
        try:
            self.driver.wait(10)
        except subprocess.TimeoutExpired:
            self.driver.kill()
            self.driver.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _call(self, method, path, body=None):
        request = urllib.request.Request(self.base + path, method=method, headers={"Content-Type": "application/json"},
                                         data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {json.load(error)['value']['message']}") from None

    def before(self, script):
        """Runs the script in each page that is opened from now on, before anything of it."""
        self._call("POST", self.session + "/goog/cdp/execute", {"cmd": "Page.addScriptToEvaluateOnNewDocument",
                                                                "params": {"source": script}})

    def open(self, address):
        self._call("POST", self.session + "/url", {"url": str(address)})

    def run(self, script, *arguments):
        """A function body in the page; returns what it returns."""
        return self._call("POST", self.session + "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script, *arguments, seconds=60):
        """Until the script gives something true, which is returned."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(script, *arguments)
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"not true after {seconds} s: {script}\n{self.console()}")
            time.sleep(0.05)

    def find(self, selector):
        return self._call("POST", self.session + "/element", {"using": "css selector", "value": selector})

    def click(self, selector):
        self._call("POST", f"{self.session}/element/{self.find(selector)[ELEMENT]}/click", {})

    def type(self, selector, keys):
        self._call("POST", f"{self.session}/element/{self.find(selector)[ELEMENT]}/value", {"text": keys})

    def pointer(self, *actions):
        """('move', x, y), ('down',), ('up',): by a real mouse as far as the page can tell."""
        made = {"move": lambda x, y: {"type": "pointerMove", "x": int(x), "y": int(y), "duration": 50},
                "down": lambda: {"type": "pointerDown", "button": 0}, "up": lambda: {"type": "pointerUp", "button": 0}}
        self._call("POST", self.session + "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [
            made[a[0]](*a[1:]) for a in actions]}]})

    def console(self):
        """What the page said since the last call: [(level, message), ...]."""
        return [(e["level"], e["message"]) for e in self._call("POST", self.session + "/se/log", {"type": "browser"})]

    def picture(self, path, whole=False):
        params = {"format": "png"}
        if whole:
            size = self.run("return [document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
            params |= {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}}
        shot = self._call("POST", self.session + "/goog/cdp/execute", {"cmd": "Page.captureScreenshot", "params": params})
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

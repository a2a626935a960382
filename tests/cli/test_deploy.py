"""What is deployed with: manifests, packages, the release. Held to the flags, versions and names that are there."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import kubernetes_schema
import support

DEPLOY = support.ROOT / "deploy/kubernetes"
try:
    import yaml
except ImportError:
    yaml = None


class Deploy(support.Case):
    def version(self):
        return self.shoal("version")[0].split()[1]

    def test_flags_of_manifests_are_known(self):
        help_text = self.shoal("train", "--help")[0]
        known = set(re.findall(r"^  --([\w-]+)", help_text, re.MULTILINE))
        for path in sorted(DEPLOY.glob("*.yaml")):
            for flag in re.findall(r"(?<![\w-])--([a-z-]+)(?:=|\b)", path.read_text()):
                self.assertIn(flag, known, path.name)

    def test_cluster_is_what_the_jobs_start(self):
        cluster = json.loads((DEPLOY / "cluster.json").read_text())["cluster"]
        for role, name in (("ps", "ps.yaml"), ("worker", "workers.yaml")):
            words = (DEPLOY / name).read_text()
            job = re.search(r"^  name: (\S+)$", words, re.MULTILINE)[1]
            subdomain = re.search(r"^      subdomain: (\S+)$", words, re.MULTILINE)[1]
            for field in ("completions", "parallelism"):
                self.assertEqual(int(re.search(rf"^  {field}: (\d+)$", words, re.MULTILINE)[1]), len(cluster[role]))
            self.assertEqual(cluster[role], [f"{job}-{i}.{subdomain}:2222" for i in range(len(cluster[role]))])
            self.assertIn(f"--task={role}:$(JOB_COMPLETION_INDEX)", words)

    @unittest.skipUnless(yaml, "there is no PyYAML")
    def test_manifests_are_yaml(self):
        listed = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
        kinds = {yaml.safe_load((DEPLOY / name).read_text())["kind"] for name in listed}
        self.assertEqual(kinds, {"Service", "PersistentVolumeClaim", "Job"})
        for name in ("ps.yaml", "workers.yaml"):
            spec = yaml.safe_load((DEPLOY / name).read_text())["spec"]["template"]["spec"]
            args = spec["containers"][0]["args"]
            drain = next(float(a.split("=")[1]) for a in args if a.startswith("--drain"))
            self.assertLess(drain, spec["terminationGracePeriodSeconds"])

    @unittest.skipUnless(yaml, "there is no PyYAML")
    def test_manifests_fit_the_api(self):
        problems, kinds = [], set()
        for path in sorted(DEPLOY.glob("*.yaml")):
            for o in yaml.safe_load_all(path.read_text()):
                problems += kubernetes_schema.check_object(o, f"{path.name}: {o.get('kind')}")
                kinds.add(o["kind"])
        self.assertEqual(problems, [])
        self.assertLessEqual({"Job", "Service", "TFJob", "TrainingRuntime", "TrainJob"}, kinds)
        # The check itself: each of these is a mistake.
        good = yaml.safe_load((DEPLOY / "workers.yaml").read_text())
        for path, value in ((("spec", "parallelism"), "three"), (("spec", "paralelism"), 3), (("spec", "template"), None),
                            (("spec", "template", "spec", "volumes"), []), (("kind",), "Jobs"), (("metadata",), {})):
            bad = json.loads(json.dumps(good))
            place = bad
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
            self.assertTrue(list(kubernetes_schema.check_object(bad, "bad")), path)

    @unittest.skipUnless(yaml, "there is no PyYAML")
    def test_trainer_describes_its_pods(self):
        described, runtime, job = yaml.safe_load_all((DEPLOY / "trainer.yaml").read_text())
        cluster = json.loads(described["data"]["cluster.json"])["cluster"]
        name, nodes = job["metadata"]["name"], job["spec"]["trainer"]["numNodes"]
        self.assertEqual(cluster["worker"], [f"{name}-node-0-{i}.{name}:2222" for i in range(nodes)])
        self.assertEqual(cluster["ps"], [f"{name}-ps-0-0.{name}:2222"])
        self.assertEqual(job["spec"]["runtimeRef"]["name"], runtime["metadata"]["name"])
        self.assertEqual(runtime["spec"]["mlPolicy"]["numNodes"], nodes)

    def test_one_version(self):
        changelog = (support.ROOT / "debian/changelog").read_text()
        self.assertEqual(re.match(r"shoal \((\S+)\)", changelog)[1], self.version())
        self.assertIn(f"newTag: {self.version()}", (DEPLOY / "kustomization.yaml").read_text())
        for name in ("tfjob.yaml", "trainer.yaml"):
            self.assertEqual(set(re.findall(r"/shoal:(\S+)", (DEPLOY / name).read_text())), {self.version()})

    def test_debian_packages_have_all_that_is_installed(self):
        """Each installed file is in the list of exactly one package, and each list finds something."""
        staged = self.folder / "staged"
        done = subprocess.run(["meson", "install", "-C", os.environ["SHOAL_BUILD"], "--no-rebuild", "--quiet",
                               "--destdir", staged], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        prefix = next(p.parent.parent for p in staged.rglob("bin/shoal"))
        files = {str(pathlib.Path("usr") / p.relative_to(prefix)) for p in prefix.rglob("*") if not p.is_dir()}
        owners = {name: [] for name in files}
        for path in sorted((support.ROOT / "debian").glob("*.install")):
            for pattern in path.read_text().split():
                found = [f for f in files if pathlib.PurePath(f).match(pattern) or any(
                    p.match(pattern) for p in pathlib.PurePath(f).parents)]
                self.assertTrue(found or "shoal" in pattern and "lib" in pattern, f"{path.name}: {pattern}")
                for f in found:
                    owners[f].append(path.stem)
        for name, packages in owners.items():
            if "/python3" not in name:
                self.assertEqual(len(packages), 1, f"{name}: {packages}")

    @unittest.skipUnless(shutil.which("cmake"), "there is no cmake")
    def test_cmake_finds_it(self):
        staged = self.folder / "staged"
        subprocess.run(["meson", "install", "-C", os.environ["SHOAL_BUILD"], "--no-rebuild", "--quiet", "--destdir",
                        staged], check=True, capture_output=True)
        config = next(staged.rglob("shoalConfig.cmake")).parent
        (self.folder / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.13)\nproject(p C)\nfind_package(shoal {self.version()} REQUIRED)\n"
            "add_executable(p p.c)\ntarget_link_libraries(p shoal::shoal)\n")
        (self.folder / "p.c").write_text('#include <shoal/shoal.h>\n#include <stdio.h>\n'
                                         'int main(void) { return puts(shoal_version()) < 0; }\n')
        for words in (["cmake", "-S", ".", "-B", "out", f"-Dshoal_DIR={config}"], ["cmake", "--build", "out"]):
            done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, timeout=support.SECONDS)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        out = subprocess.run([self.folder / "out/p"], capture_output=True, text=True, timeout=support.SECONDS)
        self.assertEqual(out.stdout.strip(), self.version())


if __name__ == "__main__":
    support.main()

"""Columns of CSV files: missing values, text and scales, learned from the training rows and used everywhere."""
import json
import random
import struct
import unittest
import zipfile

import support

COLUMNS = "label=Survived,skip=Name,categories=Pclass,missing=mean"
HEAD = ["Survived", "Pclass", "Name", "Sex", "Age", "Fare", "Embarked"]


def passengers(rows, seed, ports="SCQ"):
    """Who survives follows from sex, class and age, which are not of one scale, and some of which are missing."""
    numbers = random.Random(seed)
    for i in range(rows):
        sex, pclass, age = numbers.choice(["male", "female"]), numbers.choice([1, 2, 3]), numbers.uniform(1, 70)
        fare = numbers.uniform(5, 500)
        score = 3 * (sex == "female") - (pclass - 2) - (age - 35) / 20 - 1.5
        shown = numbers.choice(["", "NA", "?"]) if numbers.random() < 0.05 else f"{age:.1f}"
        yield [str(int(score > 0)), str(pclass), f'"Doe, {i}"', sex, shown, f"{fare:.4f}", numbers.choice(ports)]


def write(path, rows, order=range(7), separator=","):
    lines = [separator.join(row[i] for i in order) for row in [HEAD, *rows]]
    path.write_text("\n".join(lines) + "\n")


class Columns(support.Case):
    def setUp(self):
        super().setUp()
        write(self.folder / "train.csv", passengers(400, 1))
        # Semicolons, another order, and a port that no training row has.
        write(self.folder / "test.csv", passengers(200, 2, "SCX"), [6, 5, 4, 3, 2, 1, 0], ";")

    def learn(self, run, *flags, expect=0):
        return self.shoal("train", "softmax", "--data", "train.csv", "--test-data", "test.csv", "--columns", COLUMNS,
                          "--transform", "standardise", "--epochs", 20, "--batch-size", 20, "--run-dir", run,
                          *flags, expect=expect)

    def summary(self, run):
        return json.loads((self.folder / run / "summary.json").read_text())

    def settings(self, run):
        return json.loads((self.folder / run / "settings.json").read_text())

    def test_learned_once_and_used_everywhere(self):
        said = self.learn("run")
        self.assertIn("Sex: 2 categories (female, male)", said[1])
        self.assertRegex(said[1], r"Age: \d+ missing, mean 3\d\.")
        self.assertGreater(self.summary("run")["test_accuracy"], 0.9)
        learned = self.settings("run")["preprocessing"]
        kinds = {c["name"]: c.get("kind") for c in learned["columns"]}
        self.assertEqual(kinds, {"Survived": None, "Pclass": "categories", "Name": None, "Sex": "categories",
                                 "Age": "number", "Fare": "number", "Embarked": "categories"})
        self.assertEqual(learned["columns"][6]["words"], ["C", "Q", "S"])
        self.assertEqual(len(learned["features"]["shift"]), 3 + 2 + 1 + 1 + 3)
        for file in ["run/model.safetensors", *(self.folder / "run" / "checkpoints").glob("*.safetensors")]:
            raw = (self.folder / file).read_bytes()
            header = json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])
            self.assertEqual(json.loads(header["__metadata__"]["preprocessing"]), learned)
        tested = json.loads(self.shoal("eval", "run", "--json")[0])
        self.assertEqual(tested["accuracy"], self.summary("run")["test_accuracy"])
        self.shoal("predict", "run", "--index", "0-3")
        # Streamed, with workers, with several threads: the same is learned.
        for run, flags in (("stream", ["--stream", "--classes", 2]), ("ps", ["--workers", 2]),
                           ("mirrored", ["--strategy", "mirrored", "--workers", 2, "--threads", 2])):
            self.learn(run, *flags)
            self.assertEqual(self.settings(run)["preprocessing"], learned, run)
            self.assertGreater(self.summary(run)["test_accuracy"], 0.9, run)

    def test_resume_keeps_it(self):
        self.learn("run", "--epochs", 2)
        before = self.settings("run")["preprocessing"]
        # The files now have other words and another scale.
        write(self.folder / "train.csv", passengers(400, 3, "SQX"))
        self.learn("run", "--epochs", 4, "--resume")
        self.assertEqual(self.settings("run")["preprocessing"], before)

    def test_what_is_said(self):
        failed = self.shoal("train", "softmax", "--data", "train.csv", "--columns", "label=Survived,skip=Name",
                                      "--run-dir", "bad", expect=1)
        self.assertRegex(failed[1], r"train\.csv: record \d+ at byte \d+: line \d+: column 4 \('Age'\): the "
                         r"value is missing.*missing=mean")
        large = [["y", "a", "b"], ["0", "1", "900"], ["1", "2", "1000"], ["1", "3", "950"]]
        (self.folder / "large.csv").write_text("\n".join(",".join(r) for r in large) + "\n")
        said = self.shoal("train", "softmax", "--data", "large.csv", "--epochs", 1, "--run-dir", "large")
        self.assertIn("numbers as large as 1000", said[1])
        self.assertIn("--transform standardise", said[1])
        pixels = [["label", *(f"p{i}" for i in range(16))]] + [[str(k % 2), *(str(16 * i) for i in range(16))]
                                                               for k in range(4)]
        (self.folder / "pixels.csv").write_text("\n".join(",".join(r) for r in pixels) + "\n")
        said = self.shoal("train", "softmax", "--data", "pixels.csv", "--epochs", 1, "--run-dir", "pixels")
        self.assertIn("scale=1/255", said[1])
        said = self.shoal("train", "softmax", "--data", "pixels.csv", "--epochs", 1, "--run-dir", "scaled",
                          "--transform", "scale=1/255")
        self.assertNotIn("scale=1/255", said[1])
        found = json.loads(self.shoal("data", "inspect", "train.csv", "--columns", COLUMNS, "--json")[0])
        self.assertEqual(found["preprocessing"]["columns"][3]["words"], ["female", "male"])
        shown = self.shoal("data", "inspect", "train.csv", "--columns", COLUMNS)[0]
        self.assertIn("Embarked: 3 categories (C, Q, S)", shown)

    def test_hints(self):
        """Few rows for the model's own batch; numbers that are no pixels, but large for its rate."""
        (self.folder / "few.csv").write_text("a,b,label\n" + "".join(f"{i % 17},{i % 5},{i % 2}\n" for i in range(40)))
        for run, flags in {"alone": [], "ps": ["--workers", 2], "mirrored": ["--strategy", "mirrored", "--workers", 2]}.items():
            _, err = self.shoal("train", "softmax", "--data", "few.csv", "--epochs", 1, "--run-dir", run, *flags)
            self.assertEqual(json.loads((self.folder / run / "summary.json").read_text())["batch_size"], 2) # not 200
        self.shoal("train", "softmax", "--run-dir", "alone", "--resume", "--epochs", 2)
        self.assertEqual(json.loads((self.folder / "alone/summary.json").read_text())["updates"], 40)
        _, err = self.shoal("train", "softmax", "--data", "few.csv", "--epochs", 1, "--run-dir", "few", "--batch-size", 200)
        self.assertIn("40 rows in batches of 200 make 1 update an epoch: a smaller --batch-size, such as 4,", err)
        self.assertIn("numbers as large as 16 and are used unscaled: --transform standardise", err)
        out, err = self.shoal("train", "softmax", "--data", "few.csv", "--epochs", 1, "--run-dir", "better",
                              "--batch-size", 4, "--transform", "standardise")
        self.assertNotIn("usually", out + err)

    def test_statistics_leave_out_what_is_held_out(self):
        """Powers of two: a mean says which rows it is of."""
        lines = [f"{2 ** i},{i % 2}" for i in range(20)]
        (self.folder / "rows.csv").write_text("number,label\n" + "\n".join(lines) + "\n")
        seen = set()
        for run, flags in {"alone": [], "mirrored": ["--strategy", "mirrored", "--workers", 2], "ps": ["--workers", 2]}.items():
            out, _ = self.shoal("train", "softmax", "--data", "rows.csv", "--transform", "standardise", "--epochs", 2,
                                "--batch-size", 5, "--validation-split", 0.25, "--run-dir", run, *flags)
            self.assertIn("15 training rows (and 5 held out)", out)
            learned = json.loads((self.folder / run / "settings.json").read_text())["preprocessing"]["features"]
            total = 15 * learned["shift"][0]
            self.assertAlmostEqual(total, round(total), places=1)
            self.assertEqual(bin(round(total)).count("1"), 15)
            seen.add(json.dumps(learned))
        self.assertEqual(len(seen), 1)

    def test_weights_of_rows(self):
        """A row of weight 2 is one that is there twice, where another has weight 0: with all rows in each step."""
        rows = [(i % 7 - 3, i * 5 % 11 - 5, int(i % 7 + i * 5 % 11 > 8), (0, 2, 1)[i % 3]) for i in range(48)]
        (self.folder / "weighted.csv").write_text("a,w,b,class\n" + "".join(f"{a},{w},{b},{y}\n" for a, b, y, w in rows))
        (self.folder / "doubled.csv").write_text("a,b,class\n" + "".join(f"{a},{b},{y}\n" * w for a, b, y, w in rows))
        losses = {}
        for run, flags in {"weighted": ["--columns", "label=class,weight=w"], "doubled": ["--columns", "label=class"],
                           "streamed": ["--columns", "label=class,weight=w", "--stream", "--classes", 2],
                           "ps": ["--columns", "label=class,weight=w", "--workers", 2, "--batch-size", 24]}.items():
            data = "doubled.csv" if run == "doubled" else "weighted.csv"
            self.shoal("train", "softmax", "--data", data, "--epochs", 3, "--batch-size", 48, "--run-dir", run, *flags)
            losses[run] = self.summary(run)["final_loss"]
        for run in losses:
            self.assertAlmostEqual(losses[run], losses["doubled"], places=5, msg=run)
        self.shoal("eval", "weighted", "--data", "weighted.csv")
        out, _ = self.shoal("predict", "weighted", "doubled.csv")  # rows to predict need none
        self.assertEqual(len(out.strip().splitlines()), 48)
        for what, words in {"label=class,weight=class": "both the label and the weight", "weight=w,weight=a": "weight= is given twice",
                            "weight=w,skip=w": "both the weight and skipped", "weight=v": "unknown column 'v'"}.items():
            _, err = self.shoal("train", "softmax", "--data", "weighted.csv", "--columns", what, "--run-dir", "bad", expect=2)
            self.assertIn(words, err)
        (self.folder / "weighted.csv").write_text("a,w,class\n1,2,0\n1,-3,1\n")
        _, err = self.shoal("train", "softmax", "--data", "weighted.csv", "--columns", "label=class,weight=w", "--run-dir", "bad", expect=1)
        self.assertIn("expected the row's weight, a number of at least 0, found '-3'", err)

    def words(self, n=120):
        """The class follows from the town, which is a word; a town that no training row has is as unknown as another."""
        towns = ["Oslo", "Rome", "Lima", "Quito"]
        return [(towns[i % 4], f"user{i % 9}", i % 5, int(i % 4 in (0, 2))) for i in range(n)]

    def keras_archives(self, run, vocabulary):
        """The run as Keras saves such a model: layers that look words up between inputs and embeddings."""
        self.shoal("export", run, "plain.keras")
        with zipfile.ZipFile(self.folder / "plain.keras") as z:
            members = {name: z.read(name) for name in z.namelist()}

        def write(name, lookups, assets):
            config = json.loads(members["config.json"])
            layers = config["config"]["layers"]
            for layer, (of, made) in {"t": ("town", lookups[0]), "u": ("user", lookups[1])}.items():
                at = next(i for i, one in enumerate(layers) if one["name"] == layer)
                call = layers[at]["inbound_nodes"]
                next(one for one in layers if one["name"] == of)["config"]["dtype"] = "string"
                layers.insert(at, {**made, "module": "keras.layers", "name": f"look_{of}", "inbound_nodes": call,
                                   "config": {**made["config"], "name": f"look_{of}"}})
                layers[at + 1]["inbound_nodes"] = json.loads(json.dumps(call).replace(f'"{of}"', f'"look_{of}"'))
            with zipfile.ZipFile(self.folder / name, "w") as z:
                for member, data in {**members, "config.json": json.dumps(config), **assets}.items():
                    z.writestr(member, data)

        town = {"class_name": "StringLookup", "config": {"vocabulary": None, "num_oov_indices": 1, "mask_token": None, "oov_token": "[UNK]",
                                                         "output_mode": "int", "invert": False}}
        user = {"class_name": "Hashing", "config": {"num_bins": 7, "salt": None, "mask_value": None, "output_mode": "int"}}
        assets = {"assets/layers/string_lookup/vocabulary.txt": "\n".join(["[UNK]", *vocabulary])}
        write("words.keras", (town, user), assets)
        self.shoal("train", "words.keras", "--data", "train.csv", "--columns", "label=class", "--epochs", 1, "--lr", 1e-9, "--run-dir", "again")
        want, _ = self.shoal("predict", run, "rows.csv")
        got, _ = self.shoal("predict", "again", "rows.csv")
        self.assertEqual(got, want)
        write("words.keras", ({**town, "config": {**town["config"], "output_mode": "multi_hot"}}, user), assets)
        _, err = self.shoal("train", "words.keras", "--data", "train.csv", "--run-dir", "bad", expect=1)
        self.assertIn("layer 'look_town' (StringLookup): an output_mode other than 'int' is not supported", err)
        write("words.keras", (town, user), {})
        _, err = self.shoal("train", "words.keras", "--data", "train.csv", "--run-dir", "bad", expect=1)
        self.assertIn("it has no vocabulary: call adapt()", err)

    def test_words_as_numbers(self):
        lines = "".join(f"{t},{u},{x},{y}\n" for t, u, x, y in self.words())
        (self.folder / "train.csv").write_text("town,user,x,class\n" + lines)
        (self.folder / "rows.csv").write_text("x,user,town\n1,user1,Rome\n1,user1,Oslo\n2,nobody,Nowhere\n")
        lookup = {"vocabulary": ["Rome", "Oslo", "Quito", "Lima"]}
        model = {"shoal_model": 1, "inputs": [{"name": "town", "shape": [1], "lookup": lookup},
                                              {"name": "user", "shape": [1], "lookup": {"num_bins": 7}}, {"name": "x", "shape": [1]}],
                 "layers": [{"name": "t", "type": "embedding", "inputs": ["town"], "input_dim": 5, "output_dim": 4}, {"type": "flatten", "name": "ft"},
                            {"name": "u", "type": "embedding", "inputs": ["user"], "input_dim": 7, "output_dim": 2}, {"type": "flatten", "name": "fu"},
                            {"type": "concatenate", "inputs": ["ft", "fu", "x"]}, {"type": "dense", "units": 2, "activation": "softmax"}],
                 "training": {"epochs": 30, "batch_size": 20, "lr": 0.05}}
        (self.folder / "model.json").write_text(json.dumps(model))
        for run, flags in {"alone": [], "ps": ["--workers", 2, "--batch-size", 10]}.items():
            self.shoal("train", "model.json", "--data", "train.csv", "--columns", "label=class", "--run-dir", run, *flags)
            self.assertGreater(self.summary(run)["train_accuracy"], 0.95)
            columns = self.settings(run)["preprocessing"]["columns"]
            self.assertEqual(columns[0]["vocabulary"], lookup["vocabulary"])
            self.assertEqual(columns[1]["num_bins"], 7)
            out, _ = self.shoal("predict", run, "rows.csv")
            self.assertEqual([line.split()[1] for line in out.splitlines()[:2]], ["0", "1"], out)
        for bad, words in {'"shape": [2]': "the shape of an input of words is [1]", '"num_bins": 0': "num_bins",
                           '"nom_bins": 7': "num_bins"}.items():
            text = json.dumps(model).replace(*{"s": ('"shape": [1], "lookup": {"num_bins"', '"shape": [2], "lookup": {"num_bins"'),
                                               "n": ('"num_bins": 7', bad)}[bad[1]])
            (self.folder / "bad.json").write_text(text)
            _, err = self.shoal("train", "bad.json", "--data", "train.csv", "--run-dir", "bad", expect=2)
            self.assertIn(words, err)
        (self.folder / "headless.csv").write_text(lines)
        _, err = self.shoal("train", "model.json", "--data", "headless.csv", "--run-dir", "bad", expect=1)
        self.assertIn("the model takes the words of a column 'town'", err)
        self.keras_archives("alone", lookup["vocabulary"])
        # Numbers of words that the training rows have, and of a hash, without a model that asks for them.
        out, _ = self.shoal("data", "inspect", "train.csv", "--columns", "label=class,ids=town,bucket=user:7")
        self.assertIn("town: text, each word one of 5 numbers", out)
        self.assertIn("user: text, each word one of 7 numbers, by a hash", out)


FIELDS = "label=clicked,field=age:standardise,field=price:log,field=hour:buckets:6|12|18,field=city,field=tags:split:;,field=city*device"


class Fields(support.Case):
    """Columns as fields of sparse rows: numbers, words, several words, crosses."""

    def write(self, name, rows, seed, order=(0, 1, 2, 3, 4, 5, 6)):
        draw = random.Random(seed)
        lines = [["clicked", "age", "price", "hour", "city", "tags", "device"]]
        for _ in range(rows):
            age, price, hour = draw.gauss(40, 10), draw.expovariate(0.01), draw.randrange(24)
            city, device = draw.choice(["Oslo", "Rome", "Bonn"]), draw.choice(["phone", "desk"])
            tags = draw.sample(["a", "b", "c", "d"], draw.randrange(3))
            score = 2 * (city == "Oslo") * (device == "phone") + ("a" in tags) + (hour >= 18) + (age - 40) / 10 - 1.2
            lines.append([str(int(score > 0)), f"{age:.2f}", f"{price:.3f}", str(hour), city, ";".join(tags), device])
        (self.folder / name).write_text("".join(",".join(line[i] for i in order) + "\n" for line in lines))

    def setUp(self):
        super().setUp()
        self.write("train.csv", 1500, 1)
        self.write("test.csv", 400, 2, (6, 5, 4, 3, 2, 1, 0))

    def learn(self, model, run, *flags, expect=0, columns=FIELDS):
        return self.shoal("train", model, "--data", "train.csv", "--test-data", "test.csv", "--columns", columns, "--batch-size", 50,
                          "--run-dir", run, *flags, expect=expect)

    def test_entries(self):
        (self.folder / "few.csv").write_text("clicked,age,price,hour,city,tags,device\n1,30,7,12,Oslo,a;b,phone\n0,50,,18,Oslo,,phone\n"
                                             "1,30,-7,11,Rome,b;a;b,phone\n")
        self.shoal("data", "convert", "few.csv", "few.libsvm", "--columns", FIELDS, "--quiet")
        rows = [dict((int(k), float(v)) for k, v in (e.split(":") for e in line.split()[1:]))
                for line in (self.folder / "few.libsvm").read_text().splitlines()]
        # Mean 36.67, spread 9.43; log2(1 + 7) = 3.
        self.assertAlmostEqual(rows[0][1], -0.7071, places=3)
        self.assertAlmostEqual(rows[1][1], 1.4142, places=3)
        self.assertAlmostEqual(rows[0][2], 3, places=5)
        self.assertAlmostEqual(rows[2][2], -3, places=5)
        self.assertNotIn(2, rows[1])
        words = [{k: v for k, v in row.items() if k > 6} for row in rows]
        self.assertEqual([len(w) for w in words], [5, 3, 5])  # bucket, city, cross; tags
        self.assertEqual(len(words[0].keys() & words[1].keys()), 2)  # city and cross: other buckets
        self.assertEqual(len(words[0].keys() & words[2].keys()), 2)  # the two tags
        self.assertEqual(sorted(words[2].values()), [1, 1, 1, 1, 2])

    def test_models(self):
        for model, flags in (("lr", ()), ("deepfm", ("--set", "fields=6,hidden=16,log=false", "--accumulator", 0.1))):
            self.learn(model, model, *flags, "--features", 5000, "--epochs", 4)
            s = self.summary(model)
            self.assertGreater(s["test_auc"], 0.9, model)
            again = json.loads(self.shoal("eval", model, "--json")[0])
            self.assertAlmostEqual(again["loss"], s["test_loss"], places=5)
        (self.folder / "own.json").write_text(json.dumps({
            "shoal_model": 1, "name": "own", "inputs": [{"shape": [5000], "sparse": True}],
            "layers": [{"type": "embedding_bag", "units": 1, "embeddings_initializer": 0}, {"type": "activation", "activation": "sigmoid"}],
            "training": {"epochs": 4, "optimizer": "adagrad", "lr": 0.3, "batch_size": 50, "columns": FIELDS}}))
        self.shoal("train", "own.json", "--data", "train.csv", "--test-data", "test.csv", "--run-dir", "own")
        self.assertGreater(self.summary("own")["test_auc"], 0.9)
        scores = self.shoal("predict", "deepfm", "test.csv")[0].split()
        self.assertEqual(len(scores), 400)
        self.learn("deepfm", "served", "--set", "fields=6,hidden=16,log=false", "--accumulator", 0.1, "--features", 5000, "--epochs", 4,
                   "--workers", 2, "--ps", 1, "--mode", "sync")
        self.assertGreater(self.summary("served")["test_auc"], 0.85)

    def test_click_log(self):
        """The log's own columns, described one by one."""
        self.shoal("data", "generate", "criteo", "--rows", 300, "--files", 2, "--features", 4000, "--as", "tsv", "--out", "log", "--quiet")
        fields = [f"field={i}:log" for i in range(1, 14)] + [f"field={i}" for i in range(14, 40)] + ["field=14*15"]
        self.shoal("train", "deepfm", "--data", "log/clicks00.tsv", "--test-data", "log/clicks01.tsv", "--format", "tsv", "--columns",
                   "header=no,label=0," + ",".join(fields), "--set", "fields=40,hidden=8,log=false", "--features", 4000, "--batch-size", 10,
                   "--run-dir", "log-run", "--no-checkpoints")
        self.assertEqual(self.summary("log-run")["examples"], 150)

    def test_what_is_wrong(self):
        for word, said in (("field=age:logs", "unknown kind 'logs'"), ("field=age:buckets:3|2", "ascending"), ("field=ages", "did you mean 'age'"),
                           ("field=clicked", "the label"), ("field=city*", "COLUMN*COLUMN"), ("field=city:log", "expected a number, found")):
            _, err = self.learn("lr", "wrong", "--features", 5000, columns="label=clicked," + word, expect=1 if "number" in said else 2)
            self.assertIn(said, err)
        with open(self.folder / "train.csv", "a") as f:
            f.write("1,x,1,1,Oslo,a,phone\n")
        _, err = self.learn("lr", "bad", "--features", 5000, expect=1)
        for said in ("train.csv", "line 1502", "column 1 ('age')", "'x'"):
            self.assertIn(said, err)
        self.learn("lr", "skipped", "--features", 5000, "--on-bad-row", "skip")
        _, err = self.learn("deepfm", "few", "--set", "fields=5", "--features", 5000, expect=1)
        self.assertIn("5 fields", err)


if __name__ == "__main__":
    unittest.main()

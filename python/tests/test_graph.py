"""Graphs: operators and their overloading, gradients, sessions, devices, servers."""
import support

support.need("numpy")
import numpy as np  # noqa: E402
import shoal  # noqa: E402
from shoal import ops  # noqa: E402

RNG = np.random.default_rng(0)


class Values(support.Case):
    def test_arithmetic_is_numpys(self):
        a, b = RNG.normal(size=(4, 3)).astype(np.float32), RNG.normal(size=(3, 5)).astype(np.float32)
        with shoal.Graph():
            x, y = shoal.placeholder("x", shape=(None, 3)), shoal.constant(b)
            cases = [(x @ y, a @ b), (x + 1, a + 1), (2 - x, 2 - a), (x * x / 3, a * a / 3), (1 / (x ** 2 + 1), 1 / (a ** 2 + 1)), (-x, -a),
                     (abs(x), abs(a)), (x > 0, a > 0), (0.5 >= x, 0.5 >= a), (x[1], a[1]), (x[1:3, ::-1], a[1:3, ::-1]), (x[..., 0], a[..., 0]),
                     (x.T, a.T), (x.sum(), a.sum()), (x.mean(0), a.mean(0)), (x.reshape(-1, 1), a.reshape(-1, 1)), (x.astype("i32"), a.astype(np.int32)),
                     (a @ y, a @ b), (np.float32(2) * x, 2 * a), (ops.softmax(x), np.exp(a) / np.exp(a).sum(1, keepdims=True)),
                     (ops.concat([x, x], 0), np.concatenate([a, a])), (ops.where(x > 0, x, 0.0), np.where(a > 0, a, 0)),
                     (shoal.split_sizes(x, [1, 2], 1)[1], a[:, 1:])]
            with shoal.Session(threads=1) as s:
                for value, expected in cases:
                    np.testing.assert_allclose(s.run(value, {x: a}), expected, rtol=1e-4, atol=1e-6, err_msg=repr(value))

    def test_errors_come_at_once_and_do_not_stick(self):
        with shoal.Graph() as g:
            x = shoal.constant(np.zeros((2, 3), np.float32))
            with self.assertRaisesRegex(shoal.ArgumentError, "matmul"):
                x @ x
            with self.assertRaises(TypeError):
                bool(x > 0)
            with shoal.Session(g, threads=1) as s:
                self.assertEqual(s.run(x.sum()), 0)
            with shoal.Graph(), self.assertRaisesRegex(ValueError, "another graph"):
                ops.add(shoal.constant(1.0), x)

    def test_names_and_shapes(self):
        with shoal.Graph() as g:
            with g.scope("a"), g.device("/job:ps/task:0"):
                v = shoal.placeholder("v", "f64", (None, 2))
            self.assertEqual((v.name, v.shape, v.dtype, v.device), ("a/v", (None, 2), np.float64, "/job:ps/task:0"))
            self.assertEqual(g.find("a/v"), v)
            self.assertEqual(g.placeholders, [v])
            path = self.folder / "g.pb"
            g.save(path)
            self.assertEqual(shoal.Graph.load(path).placeholders[0].name, "a/v")

    def test_branches_and_loops(self):
        with shoal.Graph():
            x = shoal.placeholder("x")
            chosen, = shoal.cond(x > 0.0, lambda v: v * 2, lambda v: v - 1, [x])
            total, _ = shoal.while_loop(lambda t, i: i < 10.0, lambda t, i: (t + i, i + 1), [x, shoal.constant(0.0)])

            def broken(v):
                raise KeyError("inside")
            with self.assertRaisesRegex(KeyError, "inside"):
                shoal.cond(x > 0.0, broken, lambda v: v, [x])
            with shoal.Session(threads=1) as s:
                self.assertEqual([float(v) for v in s.run([chosen, total], {x: 3})], [6, 48])
                self.assertEqual(s.run(chosen, {x: -3}), -4)

    def test_queues_and_accumulators(self):
        with shoal.Graph() as g:
            q = shoal.Queue("q", "f32", (), 4)
            put, take, size = q.enqueue(2.0), q.dequeue(), q.size
            a = shoal.Accumulator("a", "f32", (2,))
            add = a.add(shoal.constant([1.0, 3.0]), 0)
            mean = a.take(1)
            with shoal.Session(g, threads=1) as s:
                s.run(put)
                self.assertEqual((s.run(size), s.run(take)), (1, 2))
                with self.assertRaises(shoal.Error):
                    s.run(take)
                s.run(add)
                s.run(add)
                np.testing.assert_allclose(s.run(mean), [1, 3])


class Training(support.Case):
    def test_gradients_and_updates(self):
        a = RNG.normal(size=(50, 3)).astype(np.float32)
        target = a @ np.float32([[1], [2], [3]])
        with shoal.Graph() as g:
            x, y = shoal.placeholder("x", shape=(None, 3)), shoal.placeholder("y", shape=(None, 1))
            w = shoal.variable("w", np.zeros((3, 1), np.float32))
            loss = ((x @ w - y) ** 2).mean()
            gradient, = shoal.gradients(loss, [w])
            by_hand = shoal.assign(w, w - 0.1 * gradient)
            adam = shoal.minimize(loss, [w], shoal.optimizers.Adam(0.05))
            with shoal.Session(g, threads=1) as s:
                feeds = {x: a, y: target}
                np.testing.assert_allclose(s.run(gradient, feeds), 2 * a.T @ -target / 50, rtol=1e-4)
                for _ in range(50):
                    s.run([by_hand, adam][_ % 2], feeds)
                self.assertLess(s.run(loss, feeds), 0.5)
                s.variable(w)[:] = [[1], [2], [3]]
                self.assertLess(s.run(loss, feeds), 1e-9)
                table = shoal.variable("t", np.ones((10, 2), np.float32))
                sparse, = shoal.gradients(ops.gather(table, np.int32([3, 3])).sum(), [table])
                self.assertIsInstance(sparse, shoal.graph.Gradient)

    def test_over_servers(self):
        out = self.python("""
import numpy as np, shoal
with shoal.Servers(ps=1, workers=1, threads=1) as servers, shoal.Graph() as g:
    with g.device("/job:ps/task:0"):
        w = shoal.variable("w", np.float32([1, 2]))
    with g.device("/job:worker/task:0"):
        y = w * 3
    with shoal.Session(over=servers) as s:
        print(s.run(y), s.statistics()["messages"] > 0)
    print(g.placement({"/job:ps/task:0": "tcp://a:1", "/job:worker/task:0": "tcp://b:1"}).count("ps"))
""")
        self.assertIn("[3. 6.] True", out)


if __name__ == "__main__":
    support.main()

// Tests of the bench's arithmetic: figures of slices, ratios of two builds, verdicts; and of its command line.

import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { resolve } from 'node:path';
import test from 'node:test';
import * as comparison from '../../bench/lib/comparison.mjs';
import { withTimeout } from '../lib/await.mjs';
import { UsageError } from '../lib/errors.mjs';
import { compare, scheduleOf, summarize, takeTurns } from '../../bench/lib/measure.mjs';
import { Connection } from '../../bench/lib/http.mjs';
import { readOptions } from '../../bench/lib/options.mjs';
import { cpuSeconds } from '../../bench/lib/processes.mjs';
import { rankOfInterval, ratioOf } from '../../bench/lib/ratio.mjs';
import { HEADINGS, cellsOf } from '../../bench/lib/report.mjs';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';

const slicesOf = (...times) => times.map((cpuMs) => ({ cpuMs }));

/** Uses some milliseconds of CPU time. On a busy machine, this takes longer. */
function compute(milliseconds) {
  const start = process.cpuUsage();
  const used = () => Object.values(process.cpuUsage(start)).reduce((sum, microseconds) => sum + microseconds, 0) / 1000;
  while (used() < milliseconds);
}

test('the CPU time of a request is the mean over all slices, and the rate is the median of the slices’ rates', () => {
  const slices = [
    { samples: [1, 3], count: 2, seconds: 1, cpuMs: 4 },
    { samples: [2], count: 1, seconds: 1, cpuMs: 5 },
    { samples: [9, 9, 9], count: 3, seconds: 1, cpuMs: 9 },
  ];
  assert.deepEqual(summarize(slices), { p50: 3, p99: 9, perSecond: 2, cpuMs: 3 });
});

test('without a number of requests there is no CPU time of a request, and without a duration there is no rate', () => {
  assert.deepEqual(summarize([{ samples: [1, 2], cpuMs: 7 }]), { p50: 1, p99: 2 });
  assert.deepEqual(summarize([{ count: 4, cpuMs: 2 }]), { cpuMs: 0.5 });
  assert.deepEqual(summarize([{ count: 0, seconds: 1, cpuMs: 2 }]), { perSecond: 0 });
  assert.deepEqual(summarize([{ count: 4, seconds: 2 }]), { perSecond: 2 });
});

test('three servers are measured in all orders', async () => {
  const orders = Array.from({ length: 6 }, () => '');
  const measureSlice = async ({ name }, _, turn) => {
    orders[turn] += name;
    return {};
  };
  await takeTurns([{ name: 'a' }, { name: 'b' }, { name: 'c' }], 6, { measureSlice });
  assert.deepEqual(orders.toSorted(), ['abc', 'acb', 'bac', 'bca', 'cab', 'cba']);
});

test('each server is measured first equally often, and all servers are prepared before the first slice of a turn', async () => {
  const calls = [];
  const log = (what) => async (server, _context, turn) => {
    calls.push(`${what} ${server.name}${turn ?? ''}`);
    return { count: 1, seconds: 1, samples: [1] };
  };
  const figures = await takeTurns([{ name: 'a' }, { name: 'b' }], 2, {
    prepare: log('prepare'),
    measureSlice: log('slice'),
    finish: log('finish'),
  });
  const turns = [
    'prepare a, prepare b, slice a0, slice b0, finish a0, finish b0',
    'prepare a, prepare b, slice b1, slice a1, finish a1, finish b1',
  ];
  assert.equal(calls.join(', '), turns.join(', '));
  assert.deepEqual(figures.b.slices, [
    { p50: 1, p99: 1, perSecond: 1 },
    { p50: 1, p99: 1, perSecond: 1 },
  ]);
});

test('the CPU time of a slice includes work of the process shortly after the slice', async () => {
  const measureSlice = async () => {
    compute(20);
    setTimeout(() => compute(20), 1);
    return { count: 10 };
  };
  const { self } = await takeTurns([{ name: 'self', pid: process.pid }], 1, { measureSlice });
  assert.ok(self.cpuMs >= 3.9, `${self.cpuMs} ms`);
});

test('a closed loop counts its requests and measures their latencies', async () => {
  const { only } = await compare([{ name: 'only' }], () => [async () => 5, async () => new Promise(setImmediate)], {
    seconds: 0.02,
    turns: 3,
    warmUp: 0,
  });
  assert.equal(only.slices.length, 3);
  assert.ok(only.perSecond > 0);
  assert.equal(only.p99, 5);
});

test('the CPU time of a process counts all of its threads and grows while it computes', () => {
  const before = { measured: cpuSeconds(process.pid), reported: process.cpuUsage() };
  compute(50);
  const measured = cpuSeconds(process.pid) - before.measured;
  const reported = process.cpuUsage(before.reported);
  assert.ok(Math.abs(measured - (reported.user + reported.system) / 1e6) < 0.03, `${measured} s`);
});

test('the timeout error names the missing event', async (t) => {
  await assert.rejects(withTimeout(new Promise(() => {}), 'the last event', 1), /waiting for the last event/);
  const sockets = [];
  const server = createServer((socket) => sockets.push(socket)).listen(0, '127.0.0.1');
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  await new Promise((done) => server.once('listening', done));
  const connection = new Connection(`http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`);
  connection.timeoutMs = 10;
  await assert.rejects(connection.send(connection.get('/api/sessions')), /waiting for the response to GET \/api\/sessions/);
});

test('the confidence interval of a median has the ranks of the sign test', () => {
  // Tables of the sign test: with 5 % of error, two-sided. The last two are by the normal approximation, n/2 - 0.98 √n.
  const ranks = { 1: 1, 4: 1, 6: 1, 8: 1, 9: 2, 12: 3, 20: 6, 25: 8, 36: 12, 50: 18, 1000: 469, 1800: 858 };
  for (const [count, rank] of Object.entries(ranks)) assert.equal(rankOfInterval(Number(count)), rank, `${count} samples`);
});

test('the ratio of two builds is the median of the slices’ ratios, and the spread is its confidence interval', () => {
  const a = slicesOf(1, 1, 1, 1, 1, 1, 1, 1, 1, 1);
  const b = slicesOf(1.3, 1.1, 1.2, 1.4, 1.5, 1.6, 1.7, 9, 0.1, 1.8);
  const { median, spread } = ratioOf({ of: b, to: a }, 'cpuMs');
  assert.equal(median.toFixed(3), Math.sqrt(1.4 * 1.5).toFixed(3));
  assert.deepEqual(spread, [1.1, 1.8]);
});

test('joined passes have all slices, and the medians of the other figures', () => {
  const pass = (cpuMs) => ({ A: { cpuMs, slices: [{ cpuMs }] } });
  assert.deepEqual(comparison.joinPasses([pass(1), pass(5), pass(2)]), { A: { cpuMs: 2, slices: slicesOf(1, 5, 2) } });
});

test('slices without a figure have no ratio', () => {
  assert.equal(ratioOf({ of: [], to: [] }, 'cpuMs'), null);
  assert.equal(ratioOf({ of: [{ p50: 2 }], to: [{ p50: 1 }] }, 'cpuMs'), null);
  assert.equal(ratioOf({ of: [{ cpuMs: 1 }], to: [{ cpuMs: 0 }] }, 'cpuMs'), null);
});

test('the table of a comparison has ratios with their spread, and CPU time next to the floor', () => {
  const figures = (perSecond, cpuMs) => ({ p50: 1, perSecond, cpuMs, slices: [{ perSecond, cpuMs }] });
  const cells = comparison.cellsOf(
    { work: 'RPC', mainFigure: 'perSecond' },
    { floor: figures(1000, 0.4), A: figures(500, 0.8), B: figures(600, 0.6) },
  );
  assert.equal(
    cells.join('|'),
    'RPC|500/s, 1.00 ms|600/s, 1.00 ms|1.20 (1.20 to 1.20)|1,000/s, 1.00 ms|0.80 ms, 2.00 x floor|0.60 ms, 1.50 x floor|0.75 (0.75 to 0.75)|0.40 ms',
  );
  assert.equal(cells.length, comparison.HEADINGS.length);
});

const POST = { work: 'POST', mainFigure: 'p50', maxCpuRatio: 1.4 };

test('a row has the CPU time, the ratio of the CPU time to the floor, and the verdict on this ratio', () => {
  const cells = cellsOf(POST, { floor: { p50: 1, cpuMs: 1 }, hub: { p50: 2, cpuMs: 1.5 } });
  assert.equal(cells.join('|'), 'POST|2.00 ms|1.00 ms|2.00|||1.50 ms|1.00 ms|1.50|<= 1.4 x floor|missed');
  assert.equal(cells.length, HEADINGS.length);
});

test('the verdict on the main figure compares the hub, or its ratio to the floor', () => {
  const verdict = (target) => cellsOf({ ...POST, target }, { floor: { p50: 1 }, hub: { p50: 2 } }).slice(4, 6);
  assert.deepEqual(verdict({ of: 'hub', most: 3, unit: ' ms' }), ['<= 3 ms', 'met']);
  assert.deepEqual(verdict({ of: 'ratio', least: 2.5 }), ['> 2.5 x floor', 'missed']);
});

test('the CPU time of a row with slices is compared slice by slice', () => {
  const server = (...times) => ({ p50: 1, cpuMs: 9, slices: slicesOf(...times) });
  assert.equal(cellsOf(POST, { floor: server(1, 9, 1), hub: server(2, 18, 30) })[8], '2.00');
});

test('a row without CPU time or without a hub has no ratio and no verdict', () => {
  const withoutTime = cellsOf(POST, { floor: { p50: 1 }, hub: { p50: 2 } });
  assert.deepEqual([withoutTime[3], ...withoutTime.slice(8)], ['2.00', '', '<= 1.4 x floor', '']);
  assert.equal(cellsOf(POST, { floor: { p50: 1, cpuMs: 1 } })[8], '');
});

test('--compare measures the floor and two builds in more slices', () => {
  const { compared, workers, names } = readOptions(['--compare', 'one', 'two']);
  assert.deepEqual(compared, [resolve('one'), resolve('two')]);
  assert.deepEqual(pluck(workers, 'name', 'kind', 'build'), [
    ['floor', 'floor', undefined],
    ['A', 'hub', resolve('one')],
    ['B', 'hub', resolve('two')],
  ]);
  assert.ok(!names.includes('load') && names.includes('rpc'));
  for (const quick of [false, true]) assert.ok(scheduleOf({ quick, compares: true }).turns > scheduleOf({ quick }).turns);
});

test('--compare needs two builds and scenarios with slices', () => {
  assert.throws(() => readOptions(['--compare', 'one']), /needs two folders with builds, not 1/);
  assert.throws(() => readOptions(['--compare', '--only', 'rpc,load', 'one', 'two']), /--compare cannot run load/);
  assert.throws(() => readOptions(['one']), /Unexpected argument 'one'/);
});

test('--passes sets how often a comparison runs its scenarios', () => {
  const passesOf = (...args) => readOptions(['--compare', 'one', 'two', ...args]).schedule.passes;
  assert.deepEqual(
    [passesOf(), passesOf('--passes', '1'), passesOf('--passes=1000'), passesOf('--quick', '--passes', '4')],
    [3, 1, 1000, 4],
  );
  for (const value of ['0', '1001', '1.5', 'x', '']) assert.throws(() => passesOf(`--passes=${value}`), UsageError, value);
  assert.throws(() => readOptions(['--passes', '3']), /--passes needs --compare/);
});

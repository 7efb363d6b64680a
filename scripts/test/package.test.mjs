// The npm package of the CLI: its tarball needs only packages of npm's registry.

import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { manifestOf, unregisteredDependencies, unresolvedImports } from '../../tests/e2e/lib/package-contents.mjs';
import { packAgent } from '../lib/package/staging.mjs';
import { ROOT } from '../lib/paths.mjs';

test('the tarball of the CLI has the kit, and depends only on packages of the registry, in their locked versions', async () => {
  const { file, files } = await packAgent();
  assert.deepEqual(unregisteredDependencies(file), []);
  assert.ok(Object.hasOwn(manifestOf(file).dependencies, 'socket.io-client'), 'the dependencies of the kit are dependencies of the CLI');
  assert.ok(files.includes('packages/cli-kit/src/program.mjs'));
  assert.deepEqual(unresolvedImports(path.join(ROOT, 'dist', 'agent'), files), []);
});

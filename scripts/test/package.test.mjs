// The npm package of the CLI: its tarball needs only packages of npm's registry.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { manifestOf, unregisteredDependencies, unresolvedImports } from '../../tests/e2e/lib/package-contents.mjs';
import { withoutMissingFiles } from '../lib/package/readme.mjs';
import { packAgent } from '../lib/package/staging.mjs';
import { ROOT } from '../lib/paths.mjs';

test('the tarball of the CLI has the kit, and depends only on packages of the registry, in their locked versions', async () => {
  const { file, files } = await packAgent();
  assert.deepEqual(unregisteredDependencies(file), []);
  assert.ok(Object.hasOwn(manifestOf(file).dependencies, 'socket.io-client'), 'the dependencies of the kit are dependencies of the CLI');
  assert.ok(files.includes('packages/cli-kit/src/program.mjs'));
  const readme = readFileSync(path.join(ROOT, 'dist', 'agent', 'README.md'), 'utf8');
  const targets = [...readme.matchAll(/\]\(([^)#]+)[^)]*\)/g)].map(([, target]) => target).filter((target) => !target.includes(':'));
  assert.deepEqual(
    targets.filter((target) => !existsSync(path.join(ROOT, 'dist', 'agent', target))),
    [],
  );
  assert.deepEqual(unresolvedImports(path.join(ROOT, 'dist', 'agent'), files), []);
});

test('the README of a package has no link and no picture whose file is missing', () => {
  const page = `# Hub

<p align="center">
  <img src="docs/a.png" width="260" alt="A phone">
  <img src="docs/b.png" alt="A desk">
</p>

See [all *pages*](docs/ALL.md#top), [here](#here), [the site](https://example.com) and [some](docs/SOME.md).
![A picture](docs/c.png)
`;
  assert.equal(
    withoutMissingFiles(page, (file) => file === 'docs/SOME.md'),
    '# Hub\n\nSee all *pages*, [here](#here), [the site](https://example.com) and [some](docs/SOME.md).\n\n',
  );
  assert.equal(
    withoutMissingFiles(page, () => true),
    page,
  );
});

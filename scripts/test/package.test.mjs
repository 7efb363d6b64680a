// The npm package of the CLI: its tarball needs only packages of npm's registry.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { manifestOf, unregisteredDependencies, unresolvedImports } from '../../tests/e2e/lib/package-contents.mjs';
import { AGENTS } from '../../cli/src/agents.mjs';
import { lockFor } from '../build/lock-file.mjs';
import { AGENT_FILES, HUB_DEPENDENCIES, HUB_FILES } from '../dev/package/files.mjs';
import { withoutMissingFiles } from '../dev/package/readme.mjs';
import { packAgent } from '../dev/package/staging.mjs';
import { ROOT } from '../lib/paths.mjs';

const { packages: LOCK } = JSON.parse(readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8'));

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
  assert.deepEqual(unresolvedImports(path.join(ROOT, 'dist', 'agent'), files, manifestOf(file).dependencies), []);
});

test('the lock file of the repository has a checksum for each package', () => {
  const installed = Object.entries(LOCK).filter(([place, { link }]) => place.includes('node_modules/') && !link);
  assert.deepEqual(
    installed.filter(([, { integrity }]) => !integrity).map(([place]) => place),
    [],
  );
});

test('the lock files of the packages and of the agents have checksums, no address of a registry, and the programs of all platforms', () => {
  const hub = Object.fromEntries(HUB_DEPENDENCIES.map((name) => [name, LOCK[`node_modules/${name}`].version]));
  const lock = path.join(ROOT, 'package-lock.json');
  const { packages } = lockFor({ dependencies: hub }, lock);
  const { packages: kit } = lockFor({ dependencies: { '@vscode/ripgrep': LOCK['node_modules/@vscode/ripgrep'].version } }, lock);
  const agents = Object.values(AGENTS).map((agent) => {
    const [, name, version] = /^(.+)@(.+)$/.exec(agent.package);
    return lockFor({ dependencies: { [name]: version } }, path.join(ROOT, 'tests/e2e/agents/package-lock.json')).packages;
  });
  for (const { '': root, ...others } of [packages, kit, ...agents]) {
    const isIncomplete = ({ integrity, resolved, dev, version }) => !integrity || resolved || dev || !version;
    assert.deepEqual(
      Object.entries(others).filter(([, entry]) => isIncomplete(entry)),
      [],
      Object.keys(root.dependencies).join(),
    );
  }
  const optional = [packages, kit].flatMap((entries) =>
    Object.values(entries).flatMap((entry) => Object.keys(entry.optionalDependencies ?? {})),
  );
  for (const name of optional) assert.ok((packages[`node_modules/${name}`] ?? kit[`node_modules/${name}`])?.optional, name);
  for (const name of ['workerd-darwin-arm64', 'workerd-darwin-64', 'workerd-windows-64'])
    assert.ok(packages[`node_modules/@cloudflare/${name}`].os.every((os) => ['darwin', 'win32'].includes(os)));
  for (const name of ['esbuild/win32-x64', 'esbuild/darwin-arm64', 'img/sharp-win32-x64', 'img/sharp-darwin-arm64'])
    assert.ok(packages[`node_modules/@${name}`], name);
  assert.throws(() => lockFor({ dependencies: { ...hub, uqr: '0.0.1' } }, lock), /package-lock\.json does not have uqr 0\.0\.1\.$/);
});

test('a lock file has the copy of a dependency that its package finds first', (t) => {
  const folder = tempDir(t);
  const file = path.join(folder, 'package-lock.json');
  const whole = {
    'node_modules/app': { version: '1.0.0', dependencies: { near: '^2.0.0', far: '^1.0.0' } },
    'node_modules/app/node_modules/near': { version: '2.0.0', dependencies: { far: '^1.0.0' } },
    'node_modules/far': { version: '1.0.0' },
    'node_modules/near': { version: '1.0.0' },
  };
  writeFileSync(file, JSON.stringify({ packages: whole }));
  const { '': _, ...packages } = lockFor({ dependencies: { app: '1.0.0' } }, file).packages;
  const { 'node_modules/near': __, ...needed } = whole;
  assert.deepEqual(packages, needed);
});

/** The imports that only a clone of the repository runs: they are behind `IS_PACKAGE`. */
const REPOSITORY_IMPORTS = ['setup', 'build', 'console'].map((name) => `scripts/build/prepare.mjs imports ./${name}.mjs`);

test('each import of a module of the hub’s package is a listed file, or a package in `HUB_DEPENDENCIES`', () => {
  const isListed = (file) => HUB_FILES.some((entry) => file === entry || file.startsWith(`${entry}/`));
  const folders = ['cli', 'packages', 'scripts'];
  const files = folders.flatMap((folder) =>
    readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((name) =>
      path.posix.join(folder, name.replaceAll(path.sep, '/')),
    ),
  );
  const dependencies = Object.fromEntries(HUB_DEPENDENCIES.map((name) => [name, '']));
  assert.deepEqual(unresolvedImports(ROOT, files.filter(isListed), dependencies), REPOSITORY_IMPORTS);
  const missing = HUB_FILES.filter((entry) => folders.includes(entry.split('/')[0]) && !existsSync(path.join(ROOT, entry)));
  assert.deepEqual(missing, []);
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
  const isInHub = (file) => HUB_FILES.some((entry) => file === entry || file.startsWith(`${entry}/`));
  const isInAgent = (file) => AGENT_FILES.some((entry) => file === entry || file.startsWith(`${entry}/`));
  for (const [readme, isIn] of /** @type {[string, (file: string) => boolean][]} */ ([
    ['README.md', isInHub],
    ['cli/README.md', isInAgent],
  ])) {
    const text = withoutMissingFiles(readFileSync(path.join(ROOT, readme), 'utf8'), isIn);
    const targets = [...text.matchAll(/\]\(\s*([^)\s]+)|\b(?:src|srcset|href)=["']?([^"'\s>]+)|^\[[^\]]+\]: *(\S+)/gm)]
      .map((match) => match.slice(1).find(Boolean)?.split('#')[0] ?? '')
      .filter((target) => target !== '' && !/^[a-z]+:/.test(target));
    assert.deepEqual(
      targets.filter((target) => !isIn(target)),
      [],
      readme,
    );
  }
});

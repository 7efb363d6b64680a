// The layers of the JavaScript and TypeScript code. A file imports only files of the same layer or lower layers, and imports have no cycles.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import typescript from 'typescript';
import { CHECKS } from '../gate/checks.mjs';
import { ROOT } from '../lib/paths.mjs';

/** The layers: all folders with source files, the lowest first. A file imports only files of its own folder and of earlier folders. */
const LAYERS = `
  packages/cli-kit/src cli/src/translate cli/src cli examples/shell-agent/src examples/shell-agent src/platform web web/src/api
  web/src/content web/src/ui web/src/state web/src/views web/src scripts/lib scripts/build scripts/product/clients scripts/product/backup
  scripts/product/smoke scripts/product/hub scripts/product/deploy scripts/product/namespace scripts/product scripts/dev/package
  bench/floor bench/lib bench/scenarios bench scripts/dev scripts/gate scripts/test/support packages/cli-kit/test/support packages/cli-kit/test cli/test/support cli/test/translate/support cli/test/translate
  cli/test/agents/model cli/test/agents cli/test/soak cli/test examples/shell-agent/test/support examples/shell-agent/test
  web/test/support web/test tests/e2e/lib tests/e2e/lib/crash tests/e2e/agents tests/e2e/console tests/e2e/load tests/e2e scripts/test
`.match(/\S+/g);

const SOURCE = /\.(mjs|js|ts|tsx)$/;
/** Folders with installed or generated files. */
const GENERATED = /(^|\/)(node_modules|dist|types)(\/|$)/;

const FILES = ['bench', 'cli', 'examples', 'packages', 'scripts', 'src', 'tests', 'web'].flatMap((folder) =>
  readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .map((name) => path.posix.join(folder, name.replaceAll(path.sep, '/')))
    .filter((file) => SOURCE.test(file) && !GENERATED.test(file)),
);

/** Returns the path of an imported file; undefined for a package. @param {string} from @param {string} specifier */
function resolveImport(from, specifier) {
  const kitModule = /^session-gateway-cli-kit\/(.+)/.exec(specifier)?.[1];
  if (kitModule) return `packages/cli-kit/src/${kitModule}.mjs`;
  return specifier.startsWith('.') ? path.posix.join(path.posix.dirname(from), specifier) : undefined;
}

/** @type {Map<string, string[]>} each file with the files that it imports; types in JSDoc comments are no imports */
const IMPORTS = new Map(
  FILES.map((file) => {
    const { importedFiles } = typescript.preProcessFile(readFileSync(path.join(ROOT, file), 'utf8'), true, true);
    const imported = importedFiles.map(({ fileName }) => resolveImport(file, fileName));
    return [file, [...new Set(imported)].filter((name) => FILES.includes(name))];
  }),
);

const layerOf = (/** @type {string} */ file) => LAYERS.indexOf(path.posix.dirname(file));

/**
 * Finds a cycle of files.
 * @param {string} file
 * @param {string[]} path the files whose imports lead to `file`
 * @param {Set<string>} filesWithoutCycle files that are in no cycle
 * @returns {string[] | undefined}
 */
function findCycle(file, path, filesWithoutCycle) {
  if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
  if (filesWithoutCycle.has(file)) return undefined;
  for (const imported of IMPORTS.get(file)) {
    const cycle = findCycle(imported, [...path, file], filesWithoutCycle);
    if (cycle) return cycle;
  }
  filesWithoutCycle.add(file);
  return undefined;
}

test('every folder with source files has a layer, and every layer is a folder', () => {
  const folders = new Set(FILES.map((file) => path.posix.dirname(file)));
  assert.deepEqual([...folders].sort(), [...LAYERS].sort());
});

test('no file imports a file of a higher layer', () => {
  const imports = [...IMPORTS].flatMap(([file, imported]) => imported.map((name) => ({ file, name })));
  assert.ok(
    imports.some(({ file, name }) => layerOf(file) > layerOf(name)),
    'imports are found',
  );
  const upward = imports.filter(({ file, name }) => layerOf(file) < layerOf(name));
  assert.deepEqual(
    upward.map(({ file, name }) => `${file} imports ${name}`),
    [],
  );
});

test('files import each other in no cycle', () => {
  const filesWithoutCycle = new Set();
  for (const file of FILES) assert.equal(findCycle(file, [], filesWithoutCycle)?.join(' -> '), undefined);
});

/** Returns a file with all files that it imports, also indirectly. @param {string} file */
function closureOf(file) {
  const found = new Set([file]);
  for (const one of found) for (const imported of IMPORTS.get(one)) found.add(imported);
  return [...found];
}

test('all that a test file imports is an input of its check', () => {
  const unlisted = CHECKS.flatMap(({ title, inputs, files = () => [] }) =>
    files().flatMap((file) => {
      const listed = [file, ...inputs];
      const isListed = (name) => listed.some((input) => name === input || name.startsWith(`${input}/`));
      return closureOf(file)
        .filter((name) => !isListed(name))
        .map((name) => `${title}: ${name}`);
    }),
  );
  assert.deepEqual([...new Set(unlisted)], []);
});

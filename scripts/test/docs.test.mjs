// The documentation: named files and sections exist, the reference is generated and shows each route and event, and the versions agree.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { parse } from 'yaml';
import { AGENTS } from '../../cli/src/agents.mjs';
import { PAGES, parsePattern, readConversations, readEvents, readRequests } from './support/exchanges.mjs';
import { ROOT, inProject } from '../lib/paths.mjs';
import { OPERATIONS, generateParts } from './support/reference.mjs';
import { matchRoute } from './support/routes.mjs';

/** Paths of generated files, which are not in git. */
const GENERATED = ['web/dist', 'web/types'];

/** Folders with code. In these, folders with the names of SKIPPED_FOLDERS have only generated files. */
const CODE_FOLDERS = ['src', 'tests', 'scripts', 'fuzz', 'bench', 'cli', 'examples', 'packages', 'web', 'docs'];
const SKIPPED_FOLDERS = ['node_modules', 'target', 'dist', 'results'];

/** Returns the files in a folder and its subfolders, as paths relative to the project's root. @param {string} folder */
const listFiles = (folder) =>
  readdirSync(inProject(folder), { withFileTypes: true }).flatMap((entry) => {
    const name = path.join(folder, entry.name);
    if (entry.isDirectory()) return SKIPPED_FOLDERS.includes(entry.name) ? [] : listFiles(name);
    return [name];
  });

const files = [...readdirSync(ROOT).filter((name) => name.endsWith('.md')), ...CODE_FOLDERS.flatMap(listFiles)];
const pages = files.filter((name) => name.endsWith('.md'));
const sources = files.filter((name) => /\.(rs|mjs|js|ts|tsx|yaml)$/.test(name));
const read = (file) => readFileSync(inProject(file), 'utf8');

/** Returns the text of a page without its code blocks. */
const readProse = (page) => read(page).replace(/^```[^]*?^```$/gm, '');

const headingsOf = (page) => [...readProse(page).matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading);

/** Returns the anchors of a page: the anchors that GitHub makes from the headings, and the anchors in the page's HTML. */
function anchorsOf(page) {
  const anchors = headingsOf(page).map((heading) =>
    heading
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-'),
  );
  return [...anchors, ...[...read(page).matchAll(/<a id="([^"]+)">/g)].map(([, id]) => id)];
}

test('the paths that the documentation names exist', () => {
  const missing = pages.flatMap((page) => {
    const paths = [...read(page).matchAll(/`((?:src|tests|scripts|web|bench|fuzz|docs|examples|packages|cli|tools)\/[\w./-]+)`/g)].map(
      ([, name]) => name,
    );
    const exists = (name) => existsSync(inProject(name)) || existsSync(inProject(path.dirname(page), name));
    return paths
      .filter((name) => !exists(name) && !GENERATED.some((generated) => name.startsWith(generated)))
      .map((name) => `${page}: ${name}`);
  });
  assert.deepEqual(missing, []);
});

/** Returns the files and folders whose path ends with a name, or that lie below a folder of this name. @param {string} name */
const filesNamed = (name) => recipeFiles.filter((file) => `/${file}`.endsWith(`/${name}`) || `/${file}`.includes(`/${name}/`));
const recipeFiles = [...files, ...listFiles('migrations')];

test('the files and names of each step of a recipe exist, the names in a file of the step', () => {
  const steps = readProse('docs/design/recipes.md').split(/\n(?=\d+\. |#+ |\n)/);
  const wrong = steps.flatMap((step) => {
    const code = [...step.matchAll(/`([^`]+)`/g)].map(([, text]) => text.replaceAll(/\s+/g, ' '));
    const [commands, others] = [code.filter((text) => / -|=/.test(text)), code.filter((text) => !/ -|=/.test(text))];
    const isRoute = (text) => /^(?:GET|POST|PATCH|DELETE) \//.test(text);
    const isPath = (text) => !isRoute(text) && (/[/.](?:rs|mjs|tsx?|md|yaml)$/.test(text) || filesNamed(text).length > 0);
    const ofCommands = commands.flatMap((command) => command.split(' ').filter((part) => /\w\/\w/.test(part)));
    const paths = [...ofCommands, ...others.filter(isPath)];
    const linked = [...step.matchAll(/\]\(([^)#]+)/g)].map(([, target]) => path.join('docs/design', target));
    const named = [...paths.flatMap(filesNamed), ...linked];
    const texts = (named.length === 0 ? sources : named).filter((file) => /\.\w+$/.test(file)).map(read);
    const names = others.filter((text) => !isPath(text) && !isRoute(text)).map((text) => text.replace(/!$|\(\)$/, ''));
    const isKnown = (name) => {
      const word = new RegExp(`(?<![\\w-])${name.replaceAll(/\W/g, '\\$&')}(?![\\w-])`);
      return texts.some((text) => word.test(text));
    };
    const isRegistered = (text) => {
      const [method, address] = text.split(' ');
      return matchRoute(method, address) !== undefined;
    };
    return [
      ...paths.filter((name) => filesNamed(name).length === 0),
      ...others.filter((text) => isRoute(text) && !isRegistered(text)),
      ...names.filter((name) => !isKnown(name)),
    ].map((name) => `${name} in: ${step.slice(0, 60)}`);
  });
  assert.deepEqual(wrong, []);
  assert.ok(steps.length > 25, `${steps.length} steps were found`);
});

test('every link of the documentation has its page and its section', () => {
  let links = 0;
  const broken = pages.flatMap((page) => {
    const targets = [...readProse(page).matchAll(/\]\(\s*([^)\s]+)\)|(?:src|href)="([^"]+)"/g)].map(
      ([, link, attribute]) => link ?? attribute,
    );
    const isBroken = (target) => {
      if (/^[a-z]+:/.test(target)) return false;
      links += 1;
      const [file, anchor] = target.split('#');
      const linked = file === '' ? page : path.join(path.dirname(page), file);
      if (!existsSync(inProject(linked))) return true;
      return anchor !== undefined && (statSync(inProject(linked)).isDirectory() || !anchorsOf(linked).includes(anchor));
    };
    return targets.filter(isBroken).map((target) => `${page}: ${target}`);
  });
  assert.deepEqual(broken, []);
  assert.ok(links > 200, `${links} links were found`);
});

test('every picture is on a page', () => {
  const shown = pages.map(read).join('\n');
  assert.deepEqual(
    readdirSync(inProject('docs/screens')).filter((name) => !shown.includes(`screens/${name}`)),
    [],
  );
});

test('the page of the console names each action in the menu of a session', () => {
  const labels = [...read('web/src/views/session-menu.tsx').matchAll(/label: '(?:Un)?(\w+)[^']*', icon/g)].map(([, verb]) =>
    verb.toLowerCase(),
  );
  assert.ok(labels.length > 10, labels.join());
  const page = read('docs/CONSOLE.md').toLowerCase();
  assert.deepEqual(
    labels.filter((verb) => !new RegExp(`\\b${verb}`).test(page)),
    [],
  );
});

test('the sections of the protocol that the code names exist', () => {
  let references = 0;
  const missing = sources.flatMap((file) => {
    const text = read(file).replace(/\n\s*(?:\/\/[/!]?|\*)\s*/g, ' ');
    const named = [...text.matchAll(/\b(PROTOCOL[\w-]*\.md),? (?:"([^"]+)"|`([^`]+)`)/g)];
    references += named.length;
    return named
      .filter(([, page, heading, route]) => !existsSync(inProject('docs', page)) || !headingsOf(`docs/${page}`).includes(heading ?? route))
      .map(([text]) => `${file}: ${text}`);
  });
  assert.deepEqual(missing, []);
  assert.ok(references > 60, `${references} references were found`);
});

// UPDATE_REFERENCE=1 writes them.
test('the generated parts of the reference have the routes, exchanges and errors of docs/openapi.yaml', () => {
  const reference = PAGES.map((page) => {
    const name = `docs/${page}`;
    const text = read(name);
    const current = generateParts(text);
    if (process.env.UPDATE_REFERENCE) writeFileSync(inProject(name), current);
    else assert.equal(text, current, `${name}: run UPDATE_REFERENCE=1 node --test scripts/test/docs.test.mjs`);
    return current;
  }).join('\n');
  const tags = OPERATIONS.flatMap(({ operation }) => operation.tags);
  const shown = [...reference.matchAll(/^<!-- routes: (\w+) -->\n\| Route/gm)].map(([, tag]) => tag);
  assert.deepEqual(shown.sort(), [...new Set(tags)].sort());
});

test('every operation has an exchange in docs/openapi.yaml, and every exchange of the reference a route', () => {
  const missing = OPERATIONS.filter(({ method, route, operation }) => {
    const [, shown, path] = /^(\S+) (\S+)/.exec(operation['x-exchange'] ?? '') ?? [];
    return shown !== method || matchRoute(method, path) !== route;
  });
  assert.deepEqual(missing, []);
  const unknown = readRequests().filter(({ method, path }) => matchRoute(method, path) === undefined);
  assert.deepEqual(unknown, []);
});

test('every exchange of the reference has a complete request, and at most 11 lines', () => {
  const incomplete = readRequests().filter(({ path, body = '' }) => `${path}${body}`.includes('…'));
  assert.deepEqual(incomplete, []);
  const long = readRequests().filter(({ body = '', response }) => `${body}\n${response}`.split('\n').length > 11);
  assert.deepEqual(long, []);
});

test('every event has an example in the reference', () => {
  const frames = readConversations().flatMap(({ frames }) => frames);
  const web = readEvents().map(({ text }) => parsePattern(text).type);
  const schemas = parse(read('docs/openapi.yaml')).components.schemas;
  const types = schemas.Event.oneOf.flatMap(({ $ref }) => {
    const { const: one, enum: several = [one] } = schemas[$ref.split('/').at(-1)].properties.type;
    return several;
  });
  assert.deepEqual(web.sort(), types.sort());

  const wire = readFileSync(inProject('src', 'wire', 'cli.rs'), 'utf8');
  const received = [...wire.matchAll(/^ +"([a-z-]+)" => /gm)].map(([, name]) => name);
  assert.ok(received.length > 8, `${received.length} events of CLIs were found`);
  const sent = frames.filter(({ from, name }) => from === 'cli' && name !== undefined).map(({ name }) => name);
  assert.deepEqual(
    received.filter((name) => !sent.includes(name)),
    [],
  );

  const kinds = [...wire.matchAll(/\("((?:new|update)-[a-z]+)"/g)].map(([, kind]) => kind);
  assert.ok(kinds.length > 2, `${kinds.length} updates were found`);
  const shown = frames.filter(({ name }) => name === 'update').map(({ payload }) => parsePattern(payload).body.t);
  assert.deepEqual(
    kinds.filter((kind) => !shown.includes(kind)),
    [],
  );
  for (const name of ['rpc-request', 'error'])
    assert.ok(
      frames.some((frame) => frame.name === name),
      name,
    );
});

// tests/e2e/examples.test.mjs compares the response of /health with the page.
test('the packages, the crate, the pages and the newest release have the same version', () => {
  const folders = ['.', ...JSON.parse(read('package.json')).workspaces];
  const versions = {
    ...Object.fromEntries(folders.map((folder) => [`${folder}/package.json`, JSON.parse(read(path.join(folder, 'package.json'))).version])),
    'Cargo.toml': /^version = "(.+)"$/m.exec(read('Cargo.toml'))[1],
    'Cargo.lock': /^name = "session-gateway-hub"\nversion = "(.+)"$/m.exec(read('Cargo.lock'))[1],
    'docs/openapi.yaml': parse(read('docs/openapi.yaml')).info.version,
    'the answer of GET /health': /"version":"([^"]+)"/.exec(readRequests().find(({ path }) => path === '/health').response)[1],
    'CHANGELOG.md': /^## \[(\d.+)\] - \d{4}-\d\d-\d\d$/m.exec(read('CHANGELOG.md'))[1],
  };
  for (const [place, version] of Object.entries(versions)) assert.equal(version, versions['./package.json'], place);
});

test('the page of the agents names the versions that the CLI starts', () => {
  const page = read('docs/AGENTS.md');
  for (const { title, package: name, terminal, adapterMegabytes } of Object.values(AGENTS)) {
    const [, version] = /@([^@]+)$/.exec(terminal.package);
    const [row] = page.split('\n').filter((line) => line.startsWith(`| ${title} | \`${terminal.command} `));
    assert.ok(row?.endsWith(` | ${version} |`), `${title} ${version}: ${row}`);
    const [, adapter, adapterVersion] = /^(.+)@([^@]+)$/.exec(name);
    if (adapterMegabytes) assert.ok(page.replaceAll('\n', ' ').includes(`\`${adapter}\` ${adapterVersion}`), name);
    else assert.equal(adapterVersion, version, title);
  }
});

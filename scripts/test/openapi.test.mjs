// docs/openapi.yaml describes exactly the routes and error codes of the hub.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import test from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import { parse } from 'yaml';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { inProject } from '../lib/paths.mjs';
import { ROUTES } from './support/routes.mjs';

const api = parse(readFileSync(inProject('docs', 'openapi.yaml'), 'utf8'));

const METHODS = ['get', 'put', 'post', 'patch', 'delete'];

/** Routes of the worker itself, which are not in the route table. */
const WORKER_ROUTES = [
  'GET /health',
  'POST /api/auth',
  'GET /api/events',
  'GET /api/namespaces/databases',
  'POST /api/devices',
  'POST /api/devices/requests',
  'POST /api/devices/requests/token',
];

/** Routes that need no token. */
const PUBLIC_ROUTES = [
  ...WORKER_ROUTES.filter((route) => !['GET /api/events', 'GET /api/namespaces/databases'].includes(route)),
  'POST /api/answers',
];

const operations = Object.entries(api.paths).flatMap(([path, item]) =>
  METHODS.filter((method) => item[method]).map((method) => ({ path, method, item, operation: item[method] })),
);

/** Returns the target of a `$ref`; for another object, the object itself. */
function resolve(object) {
  if (object.$ref === undefined) return object;
  return object.$ref
    .slice('#/'.length)
    .split('/')
    .reduce((parent, name) => parent?.[name], api);
}

test('docs/openapi.yaml is valid OpenAPI, and every reference has a target', async () => {
  const { valid, errors } = await new Validator().validate(structuredClone(api));
  assert.equal(valid, true, JSON.stringify(errors));
  const references = [];
  JSON.stringify(api, (key, value) => {
    if (key === '$ref') references.push(value);
    return value;
  });
  assert.ok(references.length > 100);
  for (const $ref of new Set(references)) assert.ok(resolve({ $ref }), `${$ref} has no target`);
});

test('the hub has exactly the described paths and methods', () => {
  const routes = ROUTES.map(({ method, route }) => `${method} ${route}`);
  assert.ok(routes.length > 20, 'the route table could not be parsed');
  const described = operations.map(({ path, method }) => `${method.toUpperCase()} ${path}`);
  assert.deepEqual(described.sort(), [...routes, ...WORKER_ROUTES].sort());
});

test('the hub has exactly the described error codes, and each is in the description of a response', () => {
  const source = readdirSync(inProject('src', 'http')).map((name) => readFileSync(inProject('src', 'http', name), 'utf8'));
  const codeInSource = /(?:\bStatusCode::[A-Z_]+,\s*|\bcode:\s*|\bunsupported\(\s*)"([a-z]+(?:_[a-z]+)*)"/g;
  const codes = new Set(source.flatMap((text) => [...text.matchAll(codeInSource)].map(([, code]) => code)));
  const entries = api.components.schemas.Error.properties.code.oneOf;
  const described = entries.map(({ const: code }) => code);
  assert.deepEqual(described.sort(), [...codes].sort());
  const responses = Object.values(api.components.responses).map(({ description }) => description);
  const descriptions = [api.info.description, ...responses].join('\n');
  for (const code of described) assert.ok(descriptions.includes(`\`${code}\``), `${code} is in no description`);
  for (const { operation } of operations)
    for (const [status, response] of Object.entries(operation.responses))
      for (const { const: code, 'x-status': own } of entries)
        if (Number(status) >= 400 && resolve(response).description.includes(`\`${code}\``)) assert.equal(Number(status), own, code);
});

test('every operation has its parameters, its token and its error responses', () => {
  const names = operations.map(({ operation }) => operation.operationId);
  assert.equal(new Set(names).size, names.length, 'an operationId is not unique');
  for (const { path, method, item, operation } of operations) {
    const id = operation.operationId;
    const parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map(resolve);
    const inPath = parameters.filter((parameter) => parameter.in === 'path');
    const wanted = [...path.matchAll(/\{([^}]+)\}/g)].map(([, name]) => name);
    assert.deepEqual(pluck(inPath, 'name'), wanted, id);

    const statuses = Object.keys(operation.responses);
    const isPublic = PUBLIC_ROUTES.includes(`${method.toUpperCase()} ${path}`);
    const isOfOperator = path.startsWith('/api/namespaces/');
    const schemes = (operation.security ?? api.security).flatMap(Object.keys);
    if (isPublic) assert.deepEqual(schemes, [], id);
    else assert.equal(schemes[0], isOfOperator ? 'operator' : path.startsWith('/cli/') ? 'accessToken' : 'webToken', id);
    if (!isPublic) assert.ok(statuses.includes('401'), id);
    assert.ok(statuses.includes('503'), id);
    // A body may be invalid JSON or too large.
    if (operation.requestBody) assert.ok(statuses.includes('400') && statuses.includes('413'), id);
    if (wanted.length > 0)
      assert.ok(
        // A device of another namespace counts as unknown.
        ['400', ...(path.startsWith('/api/devices/') ? [] : ['403']), '404'].every((status) => statuses.includes(status)),
        id,
      );

    for (const [status, response] of Object.entries(operation.responses)) {
      if (Number(status) < 400) continue;
      const { content } = resolve(response);
      assert.deepEqual(content, { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } }, `${id} ${status}`);
    }
  }
});

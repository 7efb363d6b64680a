// docs/openapi.yaml describes the routes and error codes of the hub, all of them and no others.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import test from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import { parse } from 'yaml';
import { inProject } from '../lib/paths.mjs';

const api = parse(readFileSync(inProject('docs', 'openapi.yaml'), 'utf8'));
const router = readFileSync(inProject('src', 'http', 'mod.rs'), 'utf8');

const METHODS = ['get', 'put', 'post', 'patch', 'delete'];

/** What the worker answers before the router, which no table names. */
const OF_THE_WORKER = ['GET /health', 'POST /api/auth', 'GET /api/events'];

/** Codes of `/socket.io/`, which OpenAPI cannot describe. */
const OF_SOCKETS = ['protocol_unsupported', 'transport_unsupported'];

const operations = Object.entries(api.paths).flatMap(([path, item]) =>
  METHODS.filter((method) => item[method]).map((method) => ({ path, method, item, operation: item[method] })),
);

/** What a `$ref` stands for, or the thing itself. */
function resolved(thing) {
  if (thing.$ref === undefined) return thing;
  return thing.$ref.slice('#/'.length).split('/').reduce((place, name) => place?.[name], api);
}

test('it is valid OpenAPI, and every reference leads somewhere', async () => {
  const { valid, errors } = await new Validator().validate(structuredClone(api));
  assert.equal(valid, true, JSON.stringify(errors));
  const references = [];
  JSON.stringify(api, (key, value) => {
    if (key === '$ref') references.push(value);
    return value;
  });
  assert.ok(references.length > 100);
  for (const $ref of new Set(references)) assert.ok(resolved({ $ref }), `${$ref} leads nowhere`);
});

test('its paths and methods are those of the hub', () => {
  const routes = [...router.matchAll(/\.route\(\s*"([^"]+)",([^]*?)(?=\n\s*\.)/g)].flatMap(([, path, handlers]) =>
    [...handlers.matchAll(/\b(get|post|patch|put|delete)\(/g)].map(([, method]) => `${method.toUpperCase()} ${path}`),
  );
  assert.ok(routes.length > 20, 'the route table was not understood');
  const described = operations.map(({ path, method }) => `${method.toUpperCase()} ${path}`);
  assert.deepEqual(described.sort(), [...routes, ...OF_THE_WORKER].sort());
});

test('its error codes are those of the hub, and each is told with an answer', () => {
  const source = readdirSync(inProject('src', 'http')).map((name) => readFileSync(inProject('src', 'http', name), 'utf8'));
  const word = /(?:\bStatusCode::[A-Z_]+,\s*|\bcode:\s*|\bbad\(\s*)"([a-z]+(?:_[a-z]+)*)"/g;
  const codes = new Set(source.flatMap((text) => [...text.matchAll(word)].map(([, code]) => code)));
  const described = api.components.schemas.Error.properties.code.enum;
  assert.deepEqual([...described, ...OF_SOCKETS].sort(), [...codes].sort());
  const answers = Object.values(api.components.responses).map(({ description }) => description);
  const told = [api.info.description, ...answers].join('\n');
  for (const code of described) assert.ok(told.includes(`\`${code}\``), `${code} is told nowhere`);
});

test('every operation names its parameters, its token and what it refuses', () => {
  const names = operations.map(({ operation }) => operation.operationId);
  assert.equal(new Set(names).size, names.length, 'an operationId stands twice');
  for (const { path, item, operation } of operations) {
    const what = operation.operationId;
    const inPath = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map(resolved).filter((one) => one.in === 'path');
    const wanted = [...path.matchAll(/\{([^}]+)\}/g)].map(([, name]) => name);
    assert.deepEqual(inPath.map(({ name }) => name), wanted, what);

    const statuses = Object.keys(operation.responses);
    const open = path === '/health' || path === '/api/auth';
    const schemes = (operation.security ?? api.security).flatMap(Object.keys);
    if (open) assert.deepEqual(schemes, [], what);
    else assert.equal(schemes[0], path.startsWith('/cli/') ? 'accessToken' : 'webToken', what);
    if (!open) assert.ok(statuses.includes('401'), what);
    assert.ok(statuses.includes('503'), what);
    // Who sends a body may send one that is not JSON, or too large.
    if (operation.requestBody) assert.ok(statuses.includes('400') && statuses.includes('413'), what);
    if (wanted.length > 0) assert.ok(['400', '403', '404'].every((status) => statuses.includes(status)), what);

    for (const [status, answer] of Object.entries(operation.responses)) {
      if (Number(status) < 400) continue;
      const { content } = resolved(answer);
      assert.deepEqual(content, { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } }, `${what} ${status}`);
    }
  }
});

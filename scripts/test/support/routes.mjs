// The hub's routes, from the source of its route table, so that the tests cover new routes.

import { readFileSync } from 'node:fs';
import { inProject } from '../../lib/paths.mjs';
import { OPERATIONS } from './reference.mjs';

const TABLE = readFileSync(inProject('src', 'http', 'mod.rs'), 'utf8')
  .split('= routes! {')[1]
  .split('\n};')[0];

/** The routes of the namespace's object. Parameters are in braces. @type {{method: string, route: string}[]} */
export const ROUTES = [...TABLE.matchAll(/^ {4}([A-Z]+) "([^"]+)" => /gm)].map(([, method, route]) => ({ method, route }));

/** The routes of docs/openapi.yaml, including the routes that the worker itself serves. @type {{method: string, route: string}[]} */
const DESCRIBED_ROUTES = OPERATIONS.map(({ method, route }) => ({ method, route }));

/**
 * Finds the described route of a path, which may have a query.
 * @param {string} method
 * @param {string} path
 * @returns {string | undefined}
 */
export function matchRoute(method, path) {
  const matches = (route) => new RegExp(`^${route.replace(/\{\w+\}/g, '[^/?]+')}(\\?.*)?$`).test(path);
  return DESCRIBED_ROUTES.find((described) => described.method === method && matches(described.route))?.route;
}

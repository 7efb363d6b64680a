// The hub's routes, from the source of its route table, so that the tests cover new routes.

import { readFileSync } from 'node:fs';
import { inProject } from './paths.mjs';

const TABLE = readFileSync(inProject('src', 'http', 'mod.rs'), 'utf8').split('= routes! {')[1].split('\n};')[0];

/** The routes of the namespace's object; parameters are in braces. @type {{method: string, route: string}[]} */
export const ROUTES = [...TABLE.matchAll(/^ {4}([A-Z]+) "([^"]+)" => /gm)].map(([, method, route]) => ({ method, route }));

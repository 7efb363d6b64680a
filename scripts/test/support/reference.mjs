// The parts of the protocol's pages that are generated from docs/openapi.yaml, between a marker such as `<!-- routes: sessions -->` and
// `<!-- end -->`: the routes of a tag, the exchange of an operation, or the error codes.

import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { inProject } from '../../lib/paths.mjs';

const api = parse(readFileSync(inProject('docs', 'openapi.yaml'), 'utf8'));

const METHODS = ['get', 'put', 'post', 'patch', 'delete'];

/** The described routes, including those that the worker itself serves. @type {{route: string, method: string, parameters: any[], operation: any}[]} */
export const OPERATIONS = Object.entries(api.paths).flatMap(([route, item]) =>
  METHODS.filter((method) => item[method]).map((method) => {
    const parameters = [...(item.parameters ?? []), ...(item[method].parameters ?? [])].map(resolve);
    return { route, method: method.toUpperCase(), parameters, operation: item[method] };
  }),
);

/** The codes of errors, with their statuses and descriptions. @type {{const: string, 'x-status': number, description: string}[]} */
const CODES = api.components.schemas.Error.properties.code.oneOf;

/** Errors that most routes may have. The tables of routes omit these codes. */
const GENERAL_CODES = [
  ...['invalid_body', 'invalid_field', 'invalid_path', 'mode_forbidden', 'unauthorized', 'device_revoked', 'forbidden'],
  ...['session_not_found', 'machine_not_found', 'body_stalled', 'body_too_large', 'too_large'],
  ...['hub_unavailable', 'not_configured', 'overloaded', 'cli_unreachable', 'cli_refused', 'rpc_timeout'],
];

const MARKER = /^<!-- (routes|exchange|errors)(?:: (\w+))? -->$\n[^]*?^<!-- end -->$/gm;

/** Returns the target of a `$ref`; for another object, the object itself. @param {any} object */
function resolve(object) {
  if (object.$ref === undefined) return object;
  return object.$ref
    .slice('#/'.length)
    .split('/')
    .reduce((parent, name) => parent[name], api);
}

/** A route with its query and the fields of its body; optional ones are marked. @param {(typeof OPERATIONS)[number]} operation */
function describeRequest({ route, method, parameters, operation }) {
  const query = parameters.filter(({ in: place }) => place === 'query').map(({ name, required }) => (required ? name : `${name}?`));
  const { properties = {}, required = [] } =
    operation.requestBody === undefined ? {} : resolve(operation.requestBody).content['application/json'].schema;
  const fields = Object.keys(properties).map((name) => (required.includes(name) ? name : `${name}?`));
  const path = `\`${method} ${route.replace(/\{(\w+)\}/g, ':$1')}\``;
  return [path, query.length > 0 && `query \`${query.join(', ')}\``, fields.length > 0 && `\`{${fields.join(', ')}}\``]
    .filter(Boolean)
    .join(' ');
}

/** The codes of a route's own errors. @param {any} operation */
function listErrors(operation) {
  const descriptions = Object.entries(operation.responses)
    .filter(([status]) => Number(status) >= 400)
    .map(([, response]) => resolve(response).description);
  const own = CODES.filter(({ const: code }) => !GENERAL_CODES.includes(code) && descriptions.some((text) => text.includes(`\`${code}\``)));
  return own.map(({ const: code }) => `\`${code}\``).join(', ');
}

/** @param {string[]} head @param {string[][]} rows */
const table = (head, rows) => {
  const line = (cells) => `| ${cells.join(' | ')} |`.replaceAll('  ', ' ');
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n');
};

const RENDER = {
  /** @param {string} tag */
  routes: (tag) =>
    table(
      ['Route', 'Purpose', 'Errors'],
      OPERATIONS.filter(({ operation }) => operation.tags.includes(tag)).map((operation) => [
        describeRequest(operation),
        operation.operation.summary,
        listErrors(operation.operation),
      ]),
    ),
  /** @param {string} name */
  exchange: (name) => `\`\`\`http\n${OPERATIONS.find(({ operation }) => operation.operationId === name)?.operation['x-exchange']}\`\`\``,
  errors: () => {
    /** @type {[number, string, string][]} */
    const errors = [];
    for (const { const: code, 'x-status': status, description } of CODES) {
      const last = errors.at(-1);
      if (last?.[0] === status && last[2] === description) last[1] += `, \`${code}\``;
      else errors.push([status, `\`${code}\``, description]);
    }
    const lines = errors.map(([status, codes, when], index) => {
      const heading = status === errors[index - 1]?.[0] ? '' : `${index === 0 ? '' : '\n'}**${status}**\n\n`;
      return `${heading}- ${codes}: ${when}`;
    });
    return lines.join('\n');
  },
};

/** Returns a page with current generated parts. @param {string} page its text */
export const generateParts = (page) =>
  page.replace(MARKER, (part, kind, argument) => `${part.split('\n')[0]}\n${RENDER[kind](argument)}\n<!-- end -->`);

/** Returns a page without generated parts. @param {string} page its text */
export const withoutGeneratedParts = (page) => page.replace(MARKER, '');

/** The models and options that each agent last offered on this machine, so that a form can show them without starting the agent. */

import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** Limit on the stored offer of one agent, in bytes of JSON: the machine's metadata has the offers of all agents. */
const MAX_OFFER_BYTES = 20_000;

const fileOf = (home, agent) => path.join(home, 'agents', `${agent}.json`);

/**
 * Stores the offer of an agent. Ignores errors: the offer is stored again at the next start of the agent.
 * @param {string} home the folder of the state
 * @param {string} agent its name in the table of agents, or the flavor of a command
 * @param {{models: object[], options?: object[]}} offer
 */
export function rememberOffer(home, agent, { models, options = [] }) {
  const offer = [
    { models, options },
    { models: models.map(withoutDescription), options },
    { models: [], options },
  ].find((candidate) => Buffer.byteLength(JSON.stringify(candidate)) <= MAX_OFFER_BYTES);
  const json = JSON.stringify(Object.fromEntries(Object.entries(offer ?? {}).filter(([, listed]) => listed.length > 0)));
  const file = fileOf(home, agent);
  const temporary = `${file}.${process.pid}`;
  try {
    if (readText(file) === json) return;
    mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
    writeFileSync(temporary, json, { mode: 0o600 });
    renameSync(temporary, file);
  } catch {
    // Such as a full disk.
  }
}

/**
 * Adds to each agent of a machine the models and options that the agent last offered. An agent that was not started yet gets neither.
 * @template {{id: string}} Agent
 * @param {string} home the folder of the state
 * @param {Agent[]} agents
 * @returns {(Agent & {models?: object[], options?: object[]})[]}
 */
export const withOffers = (home, agents) => agents.map((agent) => ({ ...agent, ...readOffer(fileOf(home, agent.id)) }));

function readOffer(file) {
  try {
    return JSON.parse(readText(file) ?? '{}');
  } catch {
    return {};
  }
}

function readText(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null;
  }
}

const withoutDescription = ({ description: _description, ...choice }) => choice;

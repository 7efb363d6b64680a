// The address of a deployed hub: the address in deployment.json, or else the address that the platform reported at the last deployment.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { makeFolder } from '../../lib/make-folder.mjs';
import { deploymentFolder } from '../../lib/paths.mjs';
import { readDeployment } from './config.mjs';

/** @param {string} env */
const addressFile = (env) => path.join(deploymentFolder(env), 'address');

/** Returns the address in deployment.json. @param {string} env @returns {string | undefined} */
export function findAddress(env) {
  const { address, domain } = readDeployment(env);
  return address ?? (domain && `https://${domain}`);
}

/** Stores the address of a deployment. @param {string} env @param {string} address */
export function storeAddress(env, address) {
  makeFolder(deploymentFolder(env));
  writeFileSync(addressFile(env), address);
}

/** Returns the address at which the hub was deployed. @param {string} env @returns {string | undefined} undefined if it is unknown */
export function deployedAddress(env) {
  return findAddress(env) ?? (existsSync(addressFile(env)) ? readFileSync(addressFile(env), 'utf8').trim() : undefined);
}

// The place of the form for a new session.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Machine } from '../src/api/types.ts';
import { recentPlaces } from '../src/state/places.ts';
import { type ChosenPlace, knownMachines, startPlace } from '../src/state/start-place.ts';

const machine = (id: string) => ({ id, metadata: { host: id }, runnerState: { directories: [`/${id}`] } }) as unknown as Machine;
const [laptop, desk] = [machine('laptop'), machine('desk')];
const BOTH = { laptop, desk };

/** `seen`: the machine of the chosen place when it was last online. */
function decide(
  chosen: ChosenPlace | null,
  online: Record<string, Machine>,
  { requestedId = null, seen }: { requestedId?: string | null; seen?: Machine } = {},
) {
  const places = recentPlaces([], knownMachines(online, seen));
  return { ...startPlace(chosen, { places, online, requestedId }), directories: places.map(({ directory }) => directory) };
}

test('without a choice, the first recent place is proposed, or a directory is to be typed', () => {
  const proposed = { machineId: 'laptop', directory: '/laptop', isOther: false };
  assert.deepEqual(decide(null, BOTH), { place: proposed, isOffline: false, directories: ['/laptop', '/desk'] });
  const { place } = decide(null, { bare: { ...machine('bare'), runnerState: null } as unknown as Machine });
  assert.deepEqual(place, { machineId: 'bare', directory: '', isOther: true });
});

for (const isOther of [true, false]) {
  test(`${isOther ? 'a typed' : 'a recent'} place stays chosen while its machine is offline, and is online again with the machine`, () => {
    const chosen = { machineId: 'laptop', directory: '/laptop', isOther };
    const away = decide(chosen, { desk }, { seen: laptop });
    assert.deepEqual([away.place, away.isOffline], [chosen, true]);
    assert.deepEqual(away.directories.toSorted(), ['/desk', '/laptop'], 'the form still lists the place');
    assert.deepEqual([decide(chosen, {}, { seen: laptop }).place, decide(chosen, {}, { seen: laptop }).isOffline], [chosen, true]);
    assert.deepEqual([decide(chosen, BOTH, { seen: laptop }).place, decide(chosen, BOTH).isOffline], [chosen, false]);
  });
}

test('a link that names a machine proposes no place of another machine, and waits for the named machine', () => {
  const requestedId = 'laptop';
  const { place, isOffline } = decide(null, { desk }, { requestedId });
  assert.deepEqual([place, isOffline], [{ machineId: 'laptop', directory: '', isOther: true }, true]);
  const later = decide(null, BOTH, { requestedId });
  assert.deepEqual([later.place, later.isOffline], [{ machineId: 'laptop', directory: '/laptop', isOther: false }, false]);
  assert.equal(decide(null, { desk }, { requestedId: 'constructor' }).isOffline, true);
});

test('only the machine of the chosen place is listed although it is offline', () => {
  assert.deepEqual(Object.keys(knownMachines({ desk }, laptop)).sort(), ['desk', 'laptop']);
  assert.equal(knownMachines(BOTH, machine('laptop')).laptop, laptop, 'the current data of an online machine is shown');
});

/** The button that pins a directory in the form for a new session. */

import { Pin } from 'lucide-preact';
import { pinnedDirectories, setPin } from '../state/drafts.ts';
import { placeKey } from '../state/places.ts';

interface Props {
  machineId: string;
  directory: string;
  /** The name of the directory. */
  label: string;
}

export function PinButton({ machineId, directory, label }: Props) {
  const key = placeKey(machineId, directory);
  const isPinned = pinnedDirectories().some((pin) => placeKey(pin.machineId, pin.directory) === key);
  return (
    <button
      type="button"
      class="button quiet icon pin"
      aria-pressed={isPinned}
      aria-label={`Pin ${label}`}
      onClick={() => setPin(key, isPinned ? null : { machineId, directory, pinnedAt: Date.now() })}
    >
      <Pin size={17} />
    </button>
  );
}

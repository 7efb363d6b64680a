/** The settings section with the devices of the namespace. */

import './devices.css';
import { Monitor, Pencil, Plus, Smartphone, Terminal, Trash2 } from 'lucide-preact';
import { Suspense } from 'preact/compat';
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { Device } from '../api/types.ts';
import { PAIR_PATH } from '../content/device-code.ts';
import { DEVICE_KINDS, MAX_DEVICE_NAME_LENGTH } from '../content/device-name.ts';
import { dropConnectCode } from '../state/connect-code.ts';
import { fetchDevices, renameDevice, revokeDevice } from '../state/devices.ts';
import { openDialog } from '../ui/dialog.tsx';
import { EscapedText } from '../ui/escaped-text.tsx';
import { formatAge } from '../ui/format.ts';
import { ErrorNotice, Skeleton } from '../ui/loading.tsx';
import { MenuButton } from '../ui/menu.tsx';
import { useFetch } from '../ui/use-fetch.ts';
import { lazy } from './lazy.tsx';

const AddDevice = lazy(() => import('./add-device.tsx').then(({ AddDevice }) => AddDevice));

const ICONS = { browser: Monitor, phone: Smartphone, cli: Terminal };

export function Devices() {
  const [isAdding, setAdding] = useState(false);
  const { value, error, refetch } = useFetch('devices', fetchDevices);
  const close = () => {
    setAdding(false);
    // A device may have been added that the dialog did not report yet.
    refetch();
  };
  return (
    <section class="card stack" aria-labelledby="devices">
      <h2 id="devices">Devices</h2>
      <p class="muted">Each device has a token of its own. Revoke a device that is lost, or that you no longer use.</p>
      <div class="row wrap">
        <button type="button" class="button primary" onClick={() => setAdding(true)}>
          <Plus size={16} /> Add a device
        </button>
        <Link href={PAIR_PATH} class="button">
          Enter a device’s code
        </Link>
      </div>
      <DeviceList devices={value} error={error} refetch={refetch} />
      {isAdding && (
        <Suspense fallback={null}>
          <AddDevice onAdded={refetch} onClose={close} />
        </Suspense>
      )}
    </section>
  );
}

interface ListProps {
  devices: Device[] | undefined;
  error: string | null;
  refetch: () => void;
}

function DeviceList({ devices, error, refetch }: ListProps) {
  if (error !== null) return <ErrorNotice text={error} onRetry={refetch} />;
  if (devices === undefined) return <Skeleton label="Loading the devices" lines={3} />;
  return (
    <>
      <ul role="list" class="devices" aria-label="Devices">
        {devices.map((device) => (
          <li key={device.id}>
            <DeviceRow device={device} refetch={refetch} />
          </li>
        ))}
      </ul>
      {!devices.some(({ isCurrent }) => isCurrent) && (
        <p class="notice">This browser is signed in with an access token, so it is not in the list.</p>
      )}
    </>
  );
}

function DeviceRow({ device, refetch }: { device: Device; refetch: () => void }) {
  const { id, name, kind, createdAt, lastSeenAt, isCurrent } = device;
  const Icon = ICONS[kind];
  const rename = () =>
    openDialog({
      title: 'Rename device',
      field: { label: 'Name', value: name, maxLength: MAX_DEVICE_NAME_LENGTH },
      action: 'Rename',
      onConfirm: async (newName) => {
        await renameDevice(id, newName);
        refetch();
      },
    });
  const revoke = () =>
    openDialog({
      title: `Revoke “${name}”?`,
      text:
        kind === 'cli'
          ? 'Its connection ends at once. To use it again, it must be approved again.'
          : 'It is signed out at once, and its drafts and unsent messages are deleted.',
      action: 'Revoke',
      isDangerous: true,
      onConfirm: async () => {
        await revokeDevice(id);
        // The hub deletes all unused codes, too.
        dropConnectCode();
        refetch();
      },
    });
  return (
    <div class="device">
      <Icon size={20} />
      <div>
        <p class="device-name">
          <EscapedText text={name} />
          {isCurrent && <span class="chip accent">this device</span>}
        </p>
        <p class="muted small">
          {DEVICE_KINDS[kind]} · {isCurrent ? 'in use' : `last used ${formatAge(lastSeenAt ?? createdAt)}`} · added {formatAge(createdAt)}
        </p>
      </div>
      <MenuButton
        label={`Actions for ${name}`}
        items={[
          { label: 'Rename', icon: <Pencil size={18} />, onSelect: rename },
          // The user signs out of this device instead.
          ...(isCurrent ? [] : [{ label: 'Revoke', icon: <Trash2 size={18} />, isDangerous: true, onSelect: revoke }]),
        ]}
      />
    </div>
  );
}

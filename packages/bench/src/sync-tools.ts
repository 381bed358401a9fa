import { execFile, spawnSync } from 'node:child_process'
import { promisify } from 'node:util'
import type { S3Store } from './s3-store.ts'
import type { Scratch } from './scratch.ts'

const run = promisify(execFile)

/** A program that keeps a directory in a bucket. */
export interface SyncTool {
  name: string
  /** Needed once before the first store. */
  prepare(): Promise<void>
  /** Stores what changed in the directory. */
  store(dir: string): Promise<void>
  /** Restores all of it into an empty directory. */
  restore(dir: string): Promise<void>
}

const nothing = async (): Promise<void> => undefined

/** Those of the tools that this machine has, each with a place of its own below the prefix. */
export function syncTools(store: S3Store, scratch: Scratch, prefix: string): SyncTool[] {
  const { endpoint, bucket, accessKeyId, secretAccessKey } = store
  const { PATH, HOME } = process.env
  // Not the rest of this environment: it may name proxies and certificates, which a store on loopback has no use for.
  const env = {
    PATH,
    HOME,
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    AWS_DEFAULT_REGION: 'us-east-1',
    // All settings stand here: no file.
    RCLONE_CONFIG: '',
    RCLONE_CONFIG_S_TYPE: 's3',
    RCLONE_CONFIG_S_PROVIDER: 'Ceph',
    RCLONE_CONFIG_S_ENDPOINT: endpoint,
    RCLONE_CONFIG_S_ACCESS_KEY_ID: accessKeyId,
    RCLONE_CONFIG_S_SECRET_ACCESS_KEY: secretAccessKey,
    RESTIC_REPOSITORY: `s3:${endpoint}/${bucket}/${prefix}restic`,
    RESTIC_PASSWORD: 'bench',
    RESTIC_CACHE_DIR: scratch.dir('restic-cache'),
  }
  const call = async (command: string, ...args: string[]): Promise<void> =>
    void (await run(command, args, { env, maxBuffer: 2 ** 26 }))
  const aws = (...args: string[]): Promise<void> =>
    call('aws', '--endpoint-url', endpoint, 's3', 'sync', '--only-show-errors', ...args)
  const tools: SyncTool[] = [
    {
      name: 'aws s3 sync',
      prepare: nothing,
      store: (dir) => aws('--delete', dir, `s3://${bucket}/${prefix}aws`),
      restore: (dir) => aws(`s3://${bucket}/${prefix}aws`, dir),
    },
    {
      name: 'rclone sync',
      prepare: nothing,
      store: (dir) => call('rclone', 'sync', '--links', '--transfers', '16', dir, `s:${bucket}/${prefix}rclone`),
      restore: (dir) => call('rclone', 'sync', '--links', '--transfers', '16', `s:${bucket}/${prefix}rclone`, dir),
    },
    {
      name: 'restic',
      prepare: () => call('restic', 'init', '--quiet'),
      store: (dir) => call('restic', 'backup', '--quiet', dir),
      restore: (dir) => call('restic', 'restore', 'latest', '--quiet', '--target', dir),
    },
  ]
  return tools.filter(({ name }) => spawnSync(name.split(' ')[0] as string, ['version']).error === undefined)
}

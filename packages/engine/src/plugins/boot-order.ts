import { NexusError } from '@nexus/errors'
import { validatePluginId } from '@nexus/storage'
import type { Plugin } from './plugin.ts'

/** The part of a plugin that its place in the order depends on. */
export type OrderedPlugin = Pick<Plugin, 'id' | 'dependencies'>

/**
 * Picks the plugins that run: those that `active` names, or all of them when it is absent.
 *
 * @throws NexusError `INVALID_ARGUMENT` for an active plugin that the program doesn't pass
 */
export function activePlugins<P extends OrderedPlugin>(passed: readonly P[], active?: readonly string[]): P[] {
  const byId = new Map<string, P>()
  for (const plugin of passed) {
    if (typeof plugin?.id !== 'string') throw refuse('something without an id was passed as a plugin', 'plugins')
    if (byId.has(plugin.id)) throw refuse(`two plugins are named "${plugin.id}"`, plugin.id)
    byId.set(plugin.id, plugin)
  }
  if (active === undefined) return [...passed]
  return [...new Set(active)].map((id) => {
    const plugin = byId.get(id)
    if (plugin !== undefined) return plugin
    const known = passed.length === 0 ? 'the program passes none' : `the program passes ${[...byId.keys()].join(', ')}`
    throw refuse(`plugins.active names "${id}", but ${known}`, id)
  })
}

/**
 * Orders plugins so that each comes after what it depends on; otherwise in the order given.
 *
 * @throws NexusError `INVALID_ARGUMENT` for a malformed or doubled id, a missing dependency, or a cycle, each by name
 */
export function bootOrder<P extends OrderedPlugin>(plugins: readonly P[]): P[] {
  const byId = new Map<string, P>()
  for (const plugin of plugins) {
    validatePluginId(plugin.id)
    if (plugin.id === 'active')
      throw refuse('a plugin can\'t be named "active": plugins.active is the list of plugins', plugin.id)
    if (byId.has(plugin.id)) throw refuse(`two plugins are named "${plugin.id}"`, plugin.id)
    byId.set(plugin.id, plugin)
  }
  const ordered = new Set<P>()
  const place = (plugin: P, dependents: readonly string[]): void => {
    if (ordered.has(plugin)) return
    const chain = [...dependents, plugin.id]
    if (dependents.includes(plugin.id)) {
      const cycle = chain.slice(chain.indexOf(plugin.id)).join(' -> ')
      throw refuse(`plugins depend on each other in a circle: ${cycle}`, plugin.id)
    }
    for (const id of plugin.dependencies ?? []) {
      const dependency = byId.get(id)
      if (dependency === undefined) {
        throw refuse(`plugin "${plugin.id}" depends on "${id}", which is not active`, plugin.id)
      }
      place(dependency, chain)
    }
    ordered.add(plugin)
  }
  for (const plugin of plugins) place(plugin, [])
  return [...ordered]
}

function refuse(message: string, key: string): NexusError {
  return new NexusError('INVALID_ARGUMENT', message, { op: 'plugins.order', key })
}

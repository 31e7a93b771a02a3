// SPDX-License-Identifier: GPL-2.0

//! Ordered maps.

use crate::alloc::{allocate, Flags};
use crate::error::Result;
use core::marker::PhantomData;
use std::collections::BTreeMap;

pub struct RBTree<K, V>(BTreeMap<K, V>);

impl<K: Ord, V> RBTree<K, V> {
    pub fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn try_create_and_insert(
        &mut self,
        key: K,
        value: V,
        _: Flags,
    ) -> crate::error::Result<Option<V>> {
        allocate()?;
        Ok(self.0.insert(key, value))
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.get_mut(key)
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.0.remove(key)
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.values()
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.values_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter()
    }
}

/// Room for an entry.
pub struct RBTreeNodeReservation<K, V>(PhantomData<fn() -> (K, V)>);

pub struct RBTreeNode<K, V>(K, V);

impl<K, V> RBTreeNodeReservation<K, V> {
    pub fn new(_: Flags) -> Result<Self> {
        allocate()?;
        Ok(Self(PhantomData))
    }

    pub fn into_node(self, key: K, value: V) -> RBTreeNode<K, V> {
        RBTreeNode(key, value)
    }
}

impl<K: Ord, V> RBTree<K, V> {
    pub fn insert(&mut self, RBTreeNode(key, value): RBTreeNode<K, V>) -> Option<V> {
        self.0.insert(key, value)
    }
}
